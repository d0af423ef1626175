"""Runs a foreign program where it reaches nothing but what it was given."""
