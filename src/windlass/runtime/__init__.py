"""Calls reconcile(key) at the right time, then reports what came back."""
