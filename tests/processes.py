"""Processes that a test has started, and what they started."""

from __future__ import annotations

from pathlib import Path


def of_session(leader: int) -> set[int]:
    """Give the processes of a session that have not ended."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            status = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(status[3]) == leader and status[0] != "Z":
            found.add(int(place.name))
    return found
