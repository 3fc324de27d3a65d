"""Tests of `rmqtool.rebuild`."""
