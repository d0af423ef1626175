"""Joins rooms into a process."""
