"""Measures windlass beside what a user would use instead."""
