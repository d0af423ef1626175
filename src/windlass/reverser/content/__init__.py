"""From a live object to the bytes and the path of its file."""
