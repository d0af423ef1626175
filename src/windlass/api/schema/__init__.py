"""How a custom resource is declared: field types, constraints, validation, OpenAPI schema."""
