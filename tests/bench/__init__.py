"""Timings, as ratios within one run. Not part of a test run."""
