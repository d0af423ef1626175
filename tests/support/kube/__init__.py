"""What stands between a client and an API server in tests."""
