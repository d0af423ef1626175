"""The agent beside one gateway: loop, operations, sync."""
