"""Tests of `rmqtool repair`."""
