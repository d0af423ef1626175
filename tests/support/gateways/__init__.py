"""Harnesses of the gateways."""
