"""Processes of windlass for tests."""
