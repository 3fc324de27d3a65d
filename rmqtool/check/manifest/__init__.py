"""What a validation has proven, kept for the next one."""
