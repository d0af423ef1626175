"""Speaks git."""
