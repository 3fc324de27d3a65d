"""Tests of store access."""
