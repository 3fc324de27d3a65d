"""Named damage to the key index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests import inflict, plain_store
from tests.inflict import Damage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.plain_store import IndexFile

NEEDS: Final = "index/*"
HASH, OFFSET, SECONDS, PREVIOUS = (0, 4), (4, 8), (12, 4), (16, 4)


def _point_forward(index: IndexFile) -> None:
    """Let an entry name itself as its predecessor: a cycle."""
    number = index.count // 2
    inflict.set_integer(index.path, index.entry_position(number) + 16, 4, lambda _: number)


def _used_slot(index: IndexFile) -> int:
    raw = index.path.read_bytes()
    return next(
        position
        for position in range(40, 40 + 4 * index.slots, 4)
        if int.from_bytes(raw[position : position + 4], "big") > 1
    )


def _wild_slot(index: IndexFile) -> None:
    inflict.set_integer(index.path, _used_slot(index), 4, lambda _: index.count + 5)


def _negative_slot(index: IndexFile) -> None:
    inflict.set_integer(index.path, _used_slot(index), 4, lambda old: ~old)


def _empty_slot(index: IndexFile) -> None:
    inflict.set_integer(index.path, _used_slot(index), 4, lambda _: 0)


def _zero_entries(count: int) -> Callable[[IndexFile], None]:
    def zero(index: IndexFile) -> None:
        inflict.write_at(index.path, index.entry_position(index.count // 2), bytes(20 * count))

    return zero


def _entry_behind(index: IndexFile) -> None:
    inflict.write_at(index.path, index.entry_position(index.count), b"\1" * 20)


def _use_entry_0(index: IndexFile) -> None:
    inflict.write_at(index.path, index.entry_position(0), b"\1" * 20)


def _drop_last_entries(index: IndexFile) -> None:
    """Take the last entries away, with all that says they were there."""
    raw = bytearray(index.path.read_bytes())
    count = index.count - 5
    for number in range(index.count - 1, count - 1, -1):
        key_hash, _, _, previous = index.entry(number)
        slot = 40 + 4 * (key_hash % index.slots)
        raw[slot : slot + 4] = previous.to_bytes(4, "big")
        position = index.entry_position(number)
        raw[position : position + 20] = bytes(20)
    used = sum(any(raw[p : p + 4]) for p in range(40, 40 + 4 * index.slots, 4))
    last = index.entry_position(count - 1)
    raw[24:32] = raw[last + 4 : last + 12]
    end = int.from_bytes(raw[24:32], "big")
    log = plain_store.records(index.path.parents[1])
    newest = next(record for record in log if record.physical_offset == end)
    raw[8:16] = newest.bytes_of("store_timestamp")
    raw[32:40] = used.to_bytes(4, "big") + count.to_bytes(4, "big")
    inflict.write_at(index.path, 0, bytes(raw))


def _remove_entry(index: IndexFile) -> None:
    """Take one entry out of the middle and move the later ones up; chains are then all wrong."""
    number = index.count // 2
    raw = index.path.read_bytes()
    begin, end = index.entry_position(number), index.entry_position(index.count)
    inflict.write_at(index.path, begin, raw[begin + 20 : end] + bytes(20))


def _swap_names(store: Path) -> None:
    paths = sorted((store / "index").iterdir())
    if len(paths) < 2:
        message = "one index file"
        raise inflict.NotApplicable(message)
    aside = paths[0].with_name("0")
    paths[0].rename(aside)
    paths[1].rename(paths[0])
    aside.rename(paths[1])


def _remove(row: int) -> Callable[[Path], None]:
    def remove(store: Path) -> None:
        sorted((store / "index").iterdir())[row].unlink()

    return remove


def _double_last(index: IndexFile) -> None:
    """Index the last record once more, as a restart does."""
    raw = bytearray(index.path.read_bytes())
    number = index.count
    key_hash, offset, seconds, _ = index.entry(number - 1)
    slot = 40 + 4 * (key_hash % index.slots)
    before = int.from_bytes(raw[slot : slot + 4], "big")
    position = index.entry_position(number)
    raw[position : position + 20] = b"".join(
        value.to_bytes(size, "big")
        for value, size in ((key_hash, 4), (offset, 8), (seconds, 4), (before, 4))
    )
    raw[slot : slot + 4] = number.to_bytes(4, "big")
    raw[36:40] = (number + 1).to_bytes(4, "big")
    inflict.write_at(index.path, 0, bytes(raw))


INDEX: Final[list[Damage]] = [
    Damage("flip-entry-hash", inflict.edit_entry(*HASH, lambda v: v ^ 1), ("IX-KEY",), NEEDS),
    Damage("flip-entry-offset", inflict.edit_entry(*OFFSET, lambda v: v ^ 8), ("IX-KEY",), NEEDS),
    Damage("flip-entry-time", inflict.edit_entry(*SECONDS, lambda v: v ^ 2), ("IX-TIME",), NEEDS),
    Damage("flip-entry-link", inflict.edit_entry(*PREVIOUS, lambda v: v ^ 1), ("IX-CHAIN",), NEEDS),
    Damage("chain-cycle", inflict.in_index(_point_forward), ("IX-CHAIN",), NEEDS),
    Damage("wild-slot", inflict.in_index(_wild_slot), ("IX-SLOT",), NEEDS),
    Damage("negative-slot", inflict.in_index(_negative_slot), ("IX-SLOT",), NEEDS),
    Damage("empty-slot", inflict.in_index(_empty_slot), ("IX-CHAIN",), NEEDS),
    Damage("zero-entry", inflict.in_index(_zero_entries(1)), ("IX-STALE",), NEEDS),
    Damage("zero-entries", inflict.in_index(_zero_entries(25)), ("IX-STALE",), NEEDS),
    Damage("entry-behind", inflict.in_index(_entry_behind, -1), ("IX-STALE",), NEEDS),
    Damage("entry-0-used", inflict.in_index(_use_entry_0), ("IX-STALE",), NEEDS),
    Damage(
        "lose-an-entry",
        inflict.in_index(_remove_entry),
        ("IX-MISSING", "IX-CHAIN", "IX-STALE"),
        NEEDS,
    ),
    Damage("end-early", inflict.in_index(_drop_last_entries, -1), ("IX-MISSING",), NEEDS),
    Damage(
        "end-first-early",
        inflict.in_index(_drop_last_entries, 0),
        ("IX-MISSING", "IX-CAP"),
        NEEDS,
        fixture="4.9.3-traffic",
    ),
    Damage("index-twice", inflict.in_index(_double_last, -1), ("IX-DUP",), NEEDS),
    Damage(
        "header-begin-time",
        inflict.edit_header("begin_timestamp", lambda v: v + 1),
        ("IX-HEAD",),
        NEEDS,
    ),
    Damage(
        "header-end-time",
        inflict.edit_header("end_timestamp", lambda v: v + 1),
        ("IX-HEAD",),
        NEEDS,
    ),
    Damage(
        "header-begin", inflict.edit_header("begin_offset", lambda v: v + 1), ("IX-HEAD",), NEEDS
    ),
    Damage(
        "header-begin-far",
        inflict.edit_header("begin_offset", lambda v: v ^ 1 << 40),
        ("IX-HEAD",),
        NEEDS,
    ),
    Damage("header-end", inflict.edit_header("end_offset", lambda v: v + 1), ("IX-HEAD",), NEEDS),
    Damage("header-slots", inflict.edit_header("slots", lambda v: v + 1), ("IX-SLOTCOUNT",), NEEDS),
    Damage("header-count-0", inflict.edit_header("count", lambda _: 0), ("IX-COUNT",), NEEDS),
    Damage(
        "header-count-huge", inflict.edit_header("count", lambda _: 1 << 30), ("IX-COUNT",), NEEDS
    ),
    Damage("cut-index", inflict.resize_file("index/*", lambda v: v - 400), ("IX-LEN",), NEEDS),
    Damage("swap-index-names", _swap_names, ("IX-ORDER",), NEEDS, fixture="4.9.3-traffic"),
    Damage("remove-first-index", _remove(0), ("IX-MISSING",), NEEDS, fixture="4.9.3-traffic"),
    Damage("remove-last-index", _remove(-1), ("IX-MISSING",), NEEDS, fixture="4.9.3-traffic"),
    Damage(
        "index-of-a-crash",
        inflict.together(
            [inflict.put_file("abort"), inflict.edit_integer("checkpoint", 16, 8, lambda _: 0)]
        ),
        ("IX-CRASH", "AB-PRESENT"),
        NEEDS,
        fixture="4.9.3-traffic",
    ),
]
