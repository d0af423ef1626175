"""Provides the programs that a local cluster runs."""
