"""Kubernetes nouns as plain data."""
