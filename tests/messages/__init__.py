"""Tests of messages out of a store."""
