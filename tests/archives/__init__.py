"""Stores in archives: the same rows as from the store, and nothing that a stranger can do."""
