"""What the API takes and answers, as pydantic models by subject: OpenAPI is made from them."""
