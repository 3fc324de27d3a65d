"""Two stores side by side: how far one log is the other, and what only one of them has."""

from rmqtool.diff.difference import Difference, difference

__all__ = ["Difference", "difference"]
