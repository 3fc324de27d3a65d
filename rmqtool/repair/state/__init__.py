"""Mend index, checkpoint, timers and configuration."""
