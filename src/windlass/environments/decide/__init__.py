"""Decides what an environment should hold, from values alone."""
