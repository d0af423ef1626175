"""Proxies and webhooks between a client and an API server in tests."""
