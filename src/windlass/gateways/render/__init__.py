"""The content of one file: templates, JSON edits and checks."""
