"""Runs a program in a child that reaches nothing but what it was given."""
