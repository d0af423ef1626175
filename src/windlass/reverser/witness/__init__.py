"""The process that sees who asked for a write."""
