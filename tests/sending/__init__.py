"""Tests of sending messages into a cluster."""
