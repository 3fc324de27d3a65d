"""Tests of the checks: no false alarm, no miss."""
