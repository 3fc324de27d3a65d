"""A real broker loads offsets that `repair --set-offset` has set, as it loads its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.cli.main import main
from rmqtool.store.tree import open_store
from tests.broker.jvm import Jvm
from tests.broker.test_broker_json import loaded
from tests.stores import fixture_store, manifest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

NAMES = {
    "5.3.3": "rocketmq-5.3.3-traffic",
    "5.5.0": "rocketmq-5.5.0-traffic",
}


def of_group(table: dict[str, Any], group: str) -> dict[str, Any]:
    """Give the offsets of a group by topic."""
    pairs = ((key.partition("@"), offsets) for key, offsets in table.items())
    return {topic: offsets for (topic, _, whose), offsets in pairs if whose == group}


@pytest.mark.parametrize("version", NAMES)
def test_loaded(version: str, tmp_path: Path) -> None:
    """One group is at its end, a new one is like another, one is gone; the rest is as it was."""
    (tmp_path / "jvm").mkdir()
    store = fixture_store(NAMES[version], tmp_path)
    settings = manifest(NAMES[version])["settings"]
    topic = "traffic-orders"
    table = open_store(str(store)).config("consumerOffset.json").document["offsetTable"]
    before = {key: {int(one): at for one, at in queues.items()} for key, queues in table.items()}
    changes = ["traffic-slow=last", "copy=like:traffic-reader", "traffic-reader=none"]
    words = [word for change in changes for word in ("--set-offset", change)]
    assert 0 == main(["repair", str(store), "--in-place", "--yes", "--quiet", *words])
    with Jvm(version, tmp_path / "jvm") as jvm:
        after = loaded(jvm, store, settings)["offsets"]
    reader = {
        key.partition("@")[0]: value for key, value in before.items() if "traffic-reader" in key
    }
    assert reader == {
        key.partition("@")[0]: value for key, value in after.items() if "@copy" in key
    }
    assert not [key for key in after if key.endswith("@traffic-reader")]
    assert all(
        after[f"{topic}@traffic-slow"][queue] > number
        for queue, number in before[f"{topic}@traffic-slow"].items()
    )
    kept = {key for key in before if "traffic-slow" not in key and "traffic-reader" not in key}
    assert {key: before[key] for key in kept} == {key: after[key] for key in kept}
