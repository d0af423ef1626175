"""What a desk cluster needs to run pods."""
