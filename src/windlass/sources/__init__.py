"""Finds the commit that a custom resource asks for."""
