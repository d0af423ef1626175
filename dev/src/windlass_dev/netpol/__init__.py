"""Enforces NetworkPolicies on the node by iptables."""
