"""Tests of findings and their codes."""
