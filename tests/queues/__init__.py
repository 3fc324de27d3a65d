"""Tests of where queue units come from."""
