"""Carving: records out of bytes that are no store."""
