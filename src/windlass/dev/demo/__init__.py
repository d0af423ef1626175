"""Shows every capability at work on one cluster."""
