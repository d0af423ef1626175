"""Decides what a gateway's files should be, from values alone."""
