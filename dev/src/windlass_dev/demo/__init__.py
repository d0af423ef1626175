"""Plays three stories against a running operator."""
