"""Winds Git and Kubernetes together, in both directions."""

__version__ = "0.1.0"
