"""Runs a Kubernetes cluster on this machine for development of windlass."""
