"""Local clusters for tests, with or without a node."""
