"""The requests and answers of the API, as pydantic models by subject: OpenAPI is made from them."""
