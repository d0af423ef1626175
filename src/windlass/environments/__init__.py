"""Turns a commit into a running, isolated copy of a project, in a namespace of its own."""
