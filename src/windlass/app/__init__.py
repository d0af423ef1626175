"""Puts the capabilities together into the controller process, and reads its settings."""
