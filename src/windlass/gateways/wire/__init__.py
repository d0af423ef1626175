"""What controller and agents exchange through ConfigMaps.

Structs here repeat fields of `windlass.api` on purpose: the agent must not import it.
"""
