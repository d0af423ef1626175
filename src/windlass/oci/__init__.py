"""Speaks the image format of OCI."""
