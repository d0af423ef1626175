"""Speaks to the API server."""
