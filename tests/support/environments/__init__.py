"""Harnesses of the environments."""
