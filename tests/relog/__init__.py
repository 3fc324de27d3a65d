"""Tests of the rebuilt commitlog."""
