"""Serves the HTTP API of an Ignition gateway over a data directory."""
