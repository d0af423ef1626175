"""Serves bare repositories by smart HTTP."""
