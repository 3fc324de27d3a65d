"""A name from data never becomes a path."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import RepairError
from rmqtool.store.names import name_problem, relative_path

HOSTILE = {
    "": "is empty",
    ".": "is not a file name",
    "..": "is not a file name",
    "../x": "contains a slash",
    "/x": "contains a slash",
    "x\0": "contains a NUL",
    "x" * 256: "has 256 bytes, and a file name at most 255",
    "ä" * 128: "has 256 bytes, and a file name at most 255",
    "\ud800": "cannot be encoded as a file name",
}


@pytest.mark.parametrize(("name", "problem"), HOSTILE.items(), ids=ascii)
def test_hostile_name(name: str, problem: str) -> None:
    """Each hostile name is refused with its reason, as any part of a path."""
    assert problem == name_problem(name)
    with pytest.raises(RepairError, match=problem.split(",", maxsplit=1)[0]):
        relative_path(("topic", name, "0"))


@pytest.mark.parametrize("name", ["orders", "%RETRY%group", "x" * 255, "...", "a b", "\udcff", "ü"])
def test_usable_name(name: str) -> None:
    """What a file system can hold is not refused, also bytes that are no text."""
    assert name_problem(name) is None
    assert f"{name}/0" == relative_path((name, "0"))


@given(st.lists(st.text(max_size=8), min_size=1, max_size=4))
def test_never_leads_out(parts: list[str]) -> None:
    """A path that is accepted lies below where it begins, as deep as it has parts."""
    try:
        path = relative_path(tuple(parts))
    except RepairError:
        return
    assert len(parts) == len(Path("/top", path).parts) - 2
    assert Path("/top") in Path("/top", path).resolve().parents
