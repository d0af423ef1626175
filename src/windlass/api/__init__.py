"""Custom resources as typed values with their schema."""
