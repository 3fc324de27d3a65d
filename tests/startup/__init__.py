"""Tests of start-up predictions."""
