"""The journaled data directory of one gateway."""
