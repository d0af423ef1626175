"""Declares metrics, log formats, event reasons."""
