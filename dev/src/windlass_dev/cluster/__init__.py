"""Starts, inspects or removes the processes of one local cluster."""
