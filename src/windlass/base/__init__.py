"""What the standard library forgot."""
