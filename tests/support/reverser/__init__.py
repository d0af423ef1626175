"""Harnesses of the reverser."""
