"""Git's nouns as pure values."""
