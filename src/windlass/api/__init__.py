"""Every custom resource as a typed value with its schema."""
