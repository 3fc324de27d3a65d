"""Readers of tables, without an engine."""
