"""Tests of the public tables."""
