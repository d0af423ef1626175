"""Turns a command line into something to run."""
