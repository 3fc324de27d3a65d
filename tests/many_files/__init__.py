"""Tests of files that are made many at once."""
