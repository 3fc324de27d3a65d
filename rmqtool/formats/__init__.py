"""What the bytes of a store mean: pure declarations, no I/O, no opinion."""
