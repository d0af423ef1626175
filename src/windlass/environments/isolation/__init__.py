"""What isolates an Environment: rights, quota, limits, network policies, trust."""
