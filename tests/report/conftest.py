"""One damaged store, and what a report tells of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.report.facts import Facts
from rmqtool.report.gather import gather
from rmqtool.report.page import page
from tests import inflict
from tests.stores import fixture_store

FIXTURE = "rocketmq-5.5.0-traffic"
HOSTILE_TOPIC = b'"><b>\x1b[31m&x<b>'  # as long as the name it replaces
HOSTILE_GROUP = "<img src=http://x/ onerror=alert(1)>"
MADE_MS = 1_800_000_000_000


def hurt(store: Path) -> None:
    """Damage a bit of everything, and let names be hostile."""
    inflict.zero_sector()(store)
    inflict.flip_field("body", where=0.1)(store)
    inflict.remove("consumequeue/traffic-orders/2/*")(store)
    for segment in sorted((store / "commitlog").iterdir()):
        raw = segment.read_bytes()
        segment.write_bytes(raw.replace(b"traffic-hostile", HOSTILE_TOPIC))
    offsets = store / "config" / "consumerOffset.json"
    text = offsets.read_text(encoding="utf-8")
    offsets.write_text(text.replace("@traffic-slow", f"@{HOSTILE_GROUP}"), encoding="utf-8")


@pytest.fixture(scope="session")
def hurt_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store with gaps, lost queues, and topics and groups of hostile names."""
    store = fixture_store(FIXTURE, tmp_path_factory.mktemp("hurt"))
    hurt(store)
    return store


@pytest.fixture(scope="session")
def facts(hurt_store: Path) -> Facts:
    """Give what a report tells of that store, the same on every machine."""
    facts = gather(ValidateOptions(store=hurt_store))
    (store,) = facts.sections["store"]
    sections = {**facts.sections, "store": [store._replace(path="/evidence/store")]}
    return dataclasses.replace(facts, location="/evidence/store", sections=sections)


@pytest.fixture(scope="session")
def html(facts: Facts) -> str:
    """Give the page of that store."""
    return page(facts, MADE_MS, "0.0.0")
