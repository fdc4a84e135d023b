"""The answers of the service by their types, from which its OpenAPI document has their schemas."""
