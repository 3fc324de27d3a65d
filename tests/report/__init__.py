"""Tests of rmqtool.report."""
