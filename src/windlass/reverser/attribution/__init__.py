"""Who made a change: the admission webhook, its records and the exact join."""
