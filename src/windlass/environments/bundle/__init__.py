"""Rendered objects to the applied bundle: allowed kinds, rules, defaults, labels."""
