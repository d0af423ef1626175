"""The commands that windlass_dev adds to the command line."""
