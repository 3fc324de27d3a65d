"""Many files at once, each the only one of a directory of its own, made by machine code."""
