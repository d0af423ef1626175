"""Git servers for tests."""
