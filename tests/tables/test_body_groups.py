"""Bodies that are shown together are those that are shown one by one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rmqtool.formats.message import Message, encode, sealed
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.scan.batch import Batch, ScanOptions
from rmqtool.scan.message import scan
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tree import open_store
from rmqtool.tables import body_groups
from rmqtool.tables.bodies import Body, BodyMode, BodyOptions, show_within
from rmqtool.tables.body_groups import Budget, groups

PLAIN: Final = [b"text", b"", "zwölf \U0001f600".encode(), b"a\nline\x00\x1f", b"x" * 300]
ZIPPED: Final = [zlib.compress(b"inflated " * 40), b"no zlib", zlib.compress(b"")]
BINARY: Final = [b"\xff\xfe", bytes(range(256))]
Shown = tuple[list[tuple[object, ...]], list[int], Budget | None]


def batch_of(tmp_path: Path, bodies: list[bytes]) -> Batch:
    """Give the records of a log with these bodies, as a scan finds them."""
    log = b""
    for number, body in enumerate(bodies):
        flags = SysFlag.COMPRESSED_FLAG if body in ZIPPED else 0
        message = Message(
            body=body, sys_flag=flags, topic_bytes=b"t", queue_offset=number,
            physical_offset=len(log), store_timestamp=1_700_000_000_000,
        )  # fmt: skip
        log += encode(sealed(message))
    path = tmp_path / "store" / "commitlog" / f"{0:020}"
    path.parent.mkdir(parents=True)
    path.write_bytes(log)
    segment = open_store(tmp_path / "store").commitlog.segments[0]
    first, *_ = scan(SegmentPart(segment, 0, len(log)), ScanOptions())
    assert first.count == len(bodies)
    return first


def shown(batch: Batch, options: BodyOptions, left: int | None) -> Shown:
    """Give the bodies, how many came at a time, and what is left of the budget."""
    budget = None if left is None else Budget(left)
    rows: list[tuple[object, ...]] = []
    counts = []
    for group in groups(batch, batch.columns, options, budget):
        count = group.columns.shape[1]
        assert group.bodies is not None
        columns = ([None] * count if body is None else body.to_pylist() for body in group.bodies)
        rows += zip(*columns, strict=True)
        counts.append(count)
    return rows, counts, budget


def mixtures() -> Iterator[list[bytes]]:
    """Give bodies that lie there as they are shown, others among them, and texts that are none."""
    yield PLAIN
    yield ZIPPED
    yield [ZIPPED[0], *PLAIN, ZIPPED[1], PLAIN[0], ZIPPED[2]]
    yield [*PLAIN, BINARY[0], ZIPPED[0], BINARY[1]]


@pytest.mark.parametrize("bodies", [*mixtures()])
@pytest.mark.parametrize("mode", [BodyMode.TEXT, BodyMode.BASE64])
@pytest.mark.parametrize("options", [BodyOptions(), BodyOptions(raw=True), BodyOptions(ceiling=40)])
def test_together(
    bodies: list[bytes],
    mode: BodyMode,
    options: BodyOptions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Same bodies, same groups, same budget left: whatever the budget holds."""
    batch = batch_of(tmp_path, bodies)
    options = options._replace(mode=mode)
    for most in (8 << 20, 400, 20):
        for left in (None, 8 << 20, 700, 330, 5):
            monkeypatch.setattr(body_groups, "BUDGET_BYTES", most)
            found = shown(batch, options, left)
            with monkeypatch.context() as one_by_one:
                one_by_one.setattr(body_groups, "_together", lambda *_: None)
                assert shown(batch, options, left) == found
            assert left is not None or len(bodies) == len(found[0])


def test_is_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts among compressed bodies are not shown one by one."""
    batch = batch_of(tmp_path, [*PLAIN, ZIPPED[0], *PLAIN])
    asked: list[bytes] = []

    def counted(
        stored: bytes, flags: int, options: BodyOptions, budget: int, owner: None
    ) -> Body | None:
        asked.append(stored)
        return show_within(stored, flags, options, budget, owner)

    monkeypatch.setattr(body_groups, "show_within", counted)
    rows, _, _ = shown(batch, BodyOptions(BodyMode.TEXT), 8 << 20)
    assert [ZIPPED[0]] == asked
    texts = [one.decode() for one in PLAIN]
    assert [*texts, "inflated " * 40, *texts] == [body for body, *_ in rows]
