"""Two stores side by side: how far one log is the other, and what only one of them has."""

from rmqtool.diff.difference import StoreDifference, difference

__all__ = ["StoreDifference", "difference"]
