"""Enforces NetworkPolicies on a desk's node."""
