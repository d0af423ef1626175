"""Assembles each process from its components."""
