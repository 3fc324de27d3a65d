"""Sizes, ranges and times as people type them; a Spark data source reads the same ones."""

from __future__ import annotations

from rmqtool.ranges import number_range, size, time_of

__all__ = ["number_range", "size", "time_of"]
