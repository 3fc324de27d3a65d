"""Judge the hash index."""
