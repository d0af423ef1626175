"""Hypothesis strategies that need few draws."""
