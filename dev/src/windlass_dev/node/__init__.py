"""Gives a local cluster a node that runs pods."""
