"""Tests of the scans."""
