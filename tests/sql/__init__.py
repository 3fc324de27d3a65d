"""Tests of SQL in this process."""
