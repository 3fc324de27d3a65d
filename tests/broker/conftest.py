"""Tests marked `broker` need Java and Maven, and skip without them, but never in CI."""

from __future__ import annotations

import os

import pytest

from tests.broker.jars import missing_tools


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a broker where none can run."""
    reason = missing_tools()
    if not reason or os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("broker"):
            item.add_marker(pytest.mark.skip(reason=reason))
