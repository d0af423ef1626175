"""Writes the live cluster into Git."""
