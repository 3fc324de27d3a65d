"""`--grep` and `--grep-regex` find what a plain loop over all records finds."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.errors import UsageError
from rmqtool.formats import inner_batch
from rmqtool.formats.compression import decompress
from rmqtool.formats.message import Message, encode, sealed
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.query.answer import Answer
from rmqtool.query.grep import MOST
from rmqtool.query.lookup import Lookup
from rmqtool.query.requests import ByText, parse_line
from rmqtool.store.tree import open_store
from tests.cli.run import rmqtool
from tests.plain_store import Record, records, segments
from tests.stores import fixture_store

TEXTS = [
    "order 77",
    '"note"',
    "多语言",
    "ORDER-1",
    "KEYS",
    "r1",
    "x",
    "compressed",
    "\x02",
    "é",
    "D-1",
]
EXPRESSIONS = ["order.?[0-9]{3}", "^ORDER-[0-9]$", "(?i)tagA", "😀|€", r"\d\d\d}"]


def found(store: Path, request: ByText) -> Answer:
    """Ask one question."""
    with Lookup(open_store(store)) as lookup:
        return lookup.find(request)


def offsets(answer: Answer) -> list[int]:
    """Give the places of what was found."""
    return [one.record.physical_offset for one in answer.hits]


def plain(store: Path, pattern: bytes) -> list[int]:
    """Find the same by reading record after record."""

    def fits(record: Record) -> bool:
        places = record.places()
        start, size = places["body"]
        raw = record.raw[start : start + size]
        body = decompress(raw, record.integer("sys_flag")).body
        start, size = places["properties"]
        parts = re.split(rb"[\x01\x02]", record.raw[start : start + size])
        return any(re.search(pattern, part) for part in (*([] if body is None else [body]), *parts))

    return [one.integer("physical_offset") for one in records(store) if fits(one)]


@pytest.mark.parametrize("name", ["4.9.3-traffic", "5.3.3-traffic", "5.5.0-batch-queue"])
def test_same_as_a_plain_loop(name: str, tmp_path: Path) -> None:
    """Whatever is looked for, in plain, compressed and batch records."""
    store = fixture_store(f"rocketmq-{name}", tmp_path)
    hits = 0
    for text in TEXTS:
        expected = plain(store, re.escape(text.encode()))
        assert expected[:MOST] == offsets(found(store, ByText(text))), text
        hits += bool(expected)
    for text in EXPRESSIONS:
        expected = plain(store, text.encode())
        assert expected[:MOST] == offsets(found(store, ByText(text, is_regex=True))), text
        hits += bool(expected)
    assert hits > 4


def test_how_many(tmp_path: Path) -> None:
    """The first thousand are given, and that there are more is said; a topic narrows it."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    answer = found(store, ByText("TAGS"))
    assert (MOST, True) == (len(answer.hits), "there are more" in answer.summary)
    run = rmqtool("query", store, "--grep-regex", "quick|note", "--quiet", "--format", "jsonl")
    assert (0, MOST) == (run.code, len(run.out.splitlines()))
    some = found(store, ByText("quick", topics=("traffic-delay",)))
    assert {"traffic-delay"} == {one.record.message.topic for one in some.hits}


@pytest.mark.parametrize("text", ["quick", "no such text"])
def test_damage(text: str, tmp_path: Path) -> None:
    """A log with damage was not searched as a whole, whether something is there or not."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    segment = store / "commitlog" / "00000000000000131072"
    raw = bytearray(segment.read_bytes())
    raw[60_000:64_096] = bytes(4096)
    segment.write_bytes(raw)
    answer = found(store, ByText(text))
    assert bool(answer.hits) == (text == "quick")
    assert "bytes of the log hold no record" in answer.summary


def test_batches(tmp_path: Path) -> None:
    """Of a batch record the message is named that has the text."""
    parts = [
        inner_batch.encode(inner_batch.ClientMessage(0, 0, 0, b"part %d" % number, b"a\x01v\x02"))
        for number in range(4)
    ]
    message = Message(
        topic_bytes=b"orders", body=b"".join(parts), sys_flag=SysFlag.INNER_BATCH_FLAG
    )
    file = tmp_path / "store" / "commitlog" / "00000000000000000000"
    file.parent.mkdir(parents=True)
    file.write_bytes(encode(sealed(message)))
    (one,) = found(tmp_path / "store", ByText("part 2")).hits
    assert ("body", "message 2 of the batch, counted from 0") == (one.how, one.note)
    (one,) = found(tmp_path / "store", ByText("v")).hits
    assert ("properties", "message 0, 1, 2 and 1 more of the batch, counted from 0") == (
        one.how,
        one.note,
    )


def test_long_record(tmp_path: Path) -> None:
    """A body that is longer than the window of a scan is read, too."""
    body = b"a" * (9 << 20) + b"needle"
    file = tmp_path / "store" / "commitlog" / "00000000000000000000"
    file.parent.mkdir(parents=True)
    raw = encode(sealed(Message(topic_bytes=b"orders", body=body)))
    second = Message(topic_bytes=b"orders", body=b"needle", physical_offset=len(raw))
    file.write_bytes(raw + encode(sealed(second)))
    for request in (ByText("needle"), ByText("needle$", is_regex=True)):
        assert [0, len(raw)] == offsets(found(tmp_path / "store", request))


def test_requests(tmp_path: Path) -> None:
    """A file of requests may have texts; what is no expression is named."""
    assert ByText("a b") == parse_line("--grep 'a b'")
    assert ByText("a", is_regex=True, topics=("t",)) == parse_line(
        '{"grep-regex": "a", "topic": "t"}'
    )
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    with pytest.raises(UsageError, match="'\\(' is not a regular expression"):
        found(store, ByText("(", is_regex=True))
    run = rmqtool("query", store, "--grep", "x", "--no-scan")
    assert (2, True) == (run.code, "--no-scan: cannot be combined with --grep" in run.err)


def refuse(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Let the disk refuse to read a file."""

    def refusing(plain_read: Callable[..., object]) -> Callable[..., object]:
        def read(handle: int, *words: object) -> object:
            if str(Path(f"/proc/self/fd/{handle}").readlink()).endswith(end):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return plain_read(handle, *words)

        return read

    for name in ("pread", "preadv"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))


def test_a_segment_that_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, whether the others hold the text or not."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    refused = f"commitlog/{segments(store)[1].name}"
    refuse(monkeypatch, refused)
    for text in ("order 77", "no such text"):
        answer = found(store, ByText(text))
        (step,) = (step for step in answer.trail.steps if step.path == refused)
        assert step.action == "search of the log"
        assert os.strerror(errno.EIO).lower() in step.result
        assert f"{refused} could not be read: {step.result}" in answer.trail.searched
