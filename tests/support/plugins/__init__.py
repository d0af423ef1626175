"""Plugins of pytest for this suite."""
