"""Mend queues of all kinds."""
