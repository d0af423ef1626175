"""Turns a commit into a running, fenced copy of a project."""
