"""Mend the commitlog."""
