"""The namespace of an Environment: its name, creation, restoration and deletion."""
