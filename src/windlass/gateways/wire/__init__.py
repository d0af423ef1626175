"""What controller and agents exchange through ConfigMaps."""
