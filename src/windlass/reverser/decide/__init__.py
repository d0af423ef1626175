"""Every decision of the reverser, free of I/O."""
