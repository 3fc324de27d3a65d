"""Two stores that real message stores wrote on from one copy: the place where they part."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.diff.report import verdict
from tests.broker.bare_store import BareStore
from tests.broker.jvm import Jvm
from tests.diff.conftest import Pair
from tests.startup.small_store import SETTINGS, inner, outlines, write_small_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.startup.small_store import Outline


def go_on(jvm: Jvm, root: Path, messages: Sequence[Outline]) -> tuple[int, int]:
    """Start a message store, put messages; give the ends of the log before and after."""
    bare = BareStore(jvm, root, SETTINGS)
    assert bare.load()
    bare.start()
    before = bare.physical_offsets()[1]
    for outline in messages:
        assert "PUT_OK" == str(bare.store.putMessage(inner(jvm, outline)).getPutMessageStatus())
    after = bare.physical_offsets()[1]
    bare.stop()
    return before, after


@pytest.mark.broker
def test_diverged(tmp_path: Path) -> None:
    """A copy that goes on alone: first it has more, then both have messages of their own."""
    further = list(outlines(220))[190:]
    others = [replace(one, body=one.body + b"!") for one in further[:12]]
    with Jvm("5.3.3", tmp_path / "home") as jvm:
        root = write_small_store(jvm, tmp_path, list(outlines(190)))["clean"]
        stores = Pair(root, tmp_path / "copy")
        shutil.copytree(root, stores.b)
        assert stores.compare().is_same
        end, end_a = go_on(jvm, stores.a, further)
        compared = stores.compare()
        assert (compared.parts_at, compared.log.b.end, compared.log.a.end) == (end, end, end_a)
        assert "B is A's log up to " in verdict(compared)
        assert verdict(compared).split("; ")[1] == "A has 30 messages more"
        assert end == go_on(jvm, stores.b, others)[0]
    compared = stores.compare()
    assert (compared.parts_at, compared.log.first, compared.log.goes_on) == (end, end, False)
    said = f"they part at {end}: from there A has 30 messages and B has 12 messages of its own"
    assert verdict(compared).startswith(said)
    for own, sent in zip(compared.log.own, (further, others), strict=True):
        counts = Counter((one.topic, one.queue_id) for one in sent)
        seen: Counter[tuple[str, int]] = Counter()
        for key, tally in own.tallies.items():
            seen[key.topic, key.queue_id] += tally.messages
        assert seen == counts
