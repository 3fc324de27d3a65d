"""`--version` tells the truth about each library, the quick way and the long way."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from rmqtool.cli import versions


def test_same_as_metadata() -> None:
    """The quick way gives what the installer's records say."""
    lines = dict(line.split(" ", 1) for line in versions.versions())
    assert {name: version(name) for name in versions.LIBRARIES} == {
        name: lines[name] for name in versions.LIBRARIES
    }


def test_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that left no directory is asked for; a missing one is said to be so."""
    monkeypatch.setattr(versions, "_installed", dict)
    monkeypatch.setattr(versions, "LIBRARIES", ("numpy", "no-such-library"))
    assert [f"numpy {version('numpy')}", "no-such-library not installed"] == versions.versions()[2:]
