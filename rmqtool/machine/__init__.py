"""Compiled kernels: compile, cache, link, check."""
