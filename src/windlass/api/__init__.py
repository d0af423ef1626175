"""Custom resources: their declaration, the kinds, and what has to be installed for them."""
