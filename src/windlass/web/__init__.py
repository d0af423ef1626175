"""Serves HTTPS."""
