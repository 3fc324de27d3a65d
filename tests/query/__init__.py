"""Tests of lookups."""
