"""Puts the capabilities together into a controller process."""
