"""Formats: the declarations agree with themselves, with the vectors, and survive hostile bytes."""
