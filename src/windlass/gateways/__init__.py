"""Brings a Git commit onto the disks of Ignition gateways."""
