"""The declared list of metrics, log fields, event reasons."""
