"""Judge checkpoint, timers and configuration."""
