"""Which objects are mirrored and where they go: rules, types, routes, grants."""
