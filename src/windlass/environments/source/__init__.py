"""Commits and files that an Environment is made from."""
