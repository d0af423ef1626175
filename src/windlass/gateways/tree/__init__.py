"""The desired file tree of one gateway, from routing to plan."""
