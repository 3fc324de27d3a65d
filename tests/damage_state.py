"""Named damage to directories and names, and to the files beside the log."""

from __future__ import annotations

import json
import re
import shutil
import struct
from typing import TYPE_CHECKING, Final

from tests import inflict, plain_store
from tests.inflict import Damage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHECKPOINT: Final = "checkpoint"
PHYSIC, LOGICS, INDEX, CONFIRM, LOGICS_OFFSET = 0, 8, 16, 32, 40
HOUR_MS: Final = 3_600_000
TIMER: Final = "timerwheel"
TIMER_RECORD: Final = 52
SLOT: Final = 32
WHEEL: Final = 1_209_600
ENTRY: Final = 48
SEGMENT: Final = 131_072
FIXED_EPOCH: Final = "2\n0\n1-0\n2-4096\n"


def _set(position: int, change: Callable[[int], int]) -> inflict.Inflict:
    return inflict.edit_integer(CHECKPOINT, position, 8, change)


def _copy_segment(store: Path) -> None:
    """Put a copy of the first segment into a second directory of the commitlog."""
    target = store / "commitlog-2"
    target.mkdir()
    shutil.copy2(plain_store.segments(store)[0], target)


def _close_early(store: Path) -> None:
    """Put a blank over most of the first segment, as a broker would that rolls for no reason."""
    log = [
        record
        for record in plain_store.records(store)
        if record.path == plain_store.segments(store)[0]
    ]
    first = log[20]
    left = first.path.stat().st_size - first.position
    blank = struct.pack(">ii", left, plain_store.BLANK_MAGIC)
    inflict.write_at(first.path, first.position, blank + bytes(left - len(blank)))


def _recover_from_afar(store: Path) -> None:
    """Crash with a checkpoint of long ago."""
    inflict.put_file("abort")(store)
    for position in (PHYSIC, LOGICS):
        _set(position, lambda old: old - HOUR_MS)(store)


def _timers(store: Path) -> list[tuple[int, Path, int]]:
    """List (time due, file, position) of all timer log records."""
    found = []
    for path in plain_store.numbered(store / "timerlog"):
        raw = path.read_bytes()
        for position in range(0, len(raw) - TIMER_RECORD + 1, TIMER_RECORD):
            size, written, delayed = struct.unpack_from(">i12xqi", raw, position)
            if size == TIMER_RECORD:
                found.append((written + delayed, path, position))
    return found


def _edit_slot(position: int, change: Callable[[int], int], size: int = 8) -> inflict.Inflict:
    """Change the slot of the timer that is furthest away."""

    def edit(store: Path) -> None:
        place = max(_timers(store))[0] // 1000 % WHEEL * SLOT
        inflict.set_integer(store / TIMER, place + position, size, change)

    return edit


def _edit_timer(position: int, size: int, change: Callable[[int], int]) -> inflict.Inflict:
    """Change a timer log record in the middle."""

    def edit(store: Path) -> None:
        found = _timers(store)
        _, path, place = found[len(found) // 2]
        inflict.set_integer(path, place + position, size, change)

    return edit


def _edit_entry(number: int, position: int, size: int) -> inflict.Inflict:
    """Change the header of a DLedger entry."""

    def edit(store: Path) -> None:
        path = inflict.one_file(store, "dledger-*/data/00000000000000000000")
        place = 0
        for _ in range(number):
            place += struct.unpack_from(">i", inflict.read_at(path, place + 4, 4))[0]
        inflict.set_integer(path, place + position, size, lambda old: old + 1)

    return edit


def _edit_document(name: str, change: Callable[[dict[str, object]], None]) -> inflict.Inflict:
    """Change a file of `config/` that is plain JSON, and its `.bak` likewise."""

    def edit(store: Path) -> None:
        for path in sorted((store / "config").glob(f"{name}*")):
            text = re.sub(r"([{,]\s*)(-?\d+)(\s*:)", r'\1"\2"\3', path.read_text())
            document = json.loads(text)
            change(document)
            path.write_text(json.dumps(document))

    return edit


def _table(document: dict[str, object], name: str = "offsetTable") -> dict[str, object]:
    found = document[name]
    assert isinstance(found, dict)
    return found


def _far_ahead(document: dict[str, object]) -> None:
    """Let one consumer stand far ahead of its queue."""
    for name, queues in _table(document).items():
        if not name.startswith("%") and isinstance(queues, dict) and queues:
            queues[min(queues)] = 1 << 40
            return
    message = "no offsets"
    raise inflict.NotApplicable(message)


def _unknown_topic(document: dict[str, object]) -> None:
    _table(document)["no-such-topic@no-such-group"] = {"0": 1}


def _delay_ahead(document: dict[str, object]) -> None:
    table = _table(document)
    table[min(table)] = 1 << 40


def _older(document: dict[str, object]) -> None:
    _table(document, "dataVersion")["counter"] = -5


def _age(store: Path) -> None:
    """Leave topics.json older than its `.bak`."""
    path = store / "config" / "topics.json"
    shutil.copy(path, path.with_name("topics.json.bak"))
    document = json.loads(path.read_text())
    _older(document)
    path.write_text(json.dumps(document))


def _first_filter(document: dict[str, object], change: Callable[[dict[str, object]], None]) -> None:
    for topic in _table(document, "filterDataByTopic").values():
        assert isinstance(topic, dict)
        for group in topic["groupFilterData"].values():
            change(group["bloomFilterData"])
            return


def _other_size(document: dict[str, object]) -> None:
    _first_filter(document, lambda data: data.update(bitNum=128))


def _other_bits(document: dict[str, object]) -> None:
    _first_filter(document, lambda data: data.update(bitPos=[1, 2, 3]))


def _forget_topic(store: Path) -> None:
    """Take a topic with queues out of topics.json."""

    def forget(document: dict[str, object]) -> None:
        del _table(document, "topicConfigTable")["traffic-orders"]

    _edit_document("topics.json", forget)(store)


def _read_fewer(store: Path) -> None:
    """Give consumers of a topic fewer queues than its producers have."""

    def lower(document: dict[str, object]) -> None:
        topic = _table(document, "topicConfigTable")["traffic-orders"]
        assert isinstance(topic, dict)
        topic["readQueueNums"] = 2

    _edit_document("topics.json", lower)(store)


def _loop(store: Path) -> None:
    """Put a link that leads to itself in place of a file of a queue."""
    path = plain_store.numbered(plain_store.busiest_queue(store))[-1]
    path.unlink()
    path.symlink_to(path.name)


def _rename_queue(store: Path) -> None:
    """Give a queue's directory a number that is not the name that a broker builds."""
    path = plain_store.busiest_queue(store)
    path.rename(path.with_name(f"0{path.name}"))


def _rename_topic(store: Path) -> None:
    """Give a topic's directory another name."""
    path = plain_store.busiest_queue(store).parent
    path.rename(path.with_name(path.name.upper()))


def _remove_config(*names: str) -> inflict.Inflict:
    """Take files of the configuration and their copies away; without a name, all of it."""

    def harm(store: Path) -> None:
        if not names:
            shutil.rmtree(store / "config")
        for name in names:
            for path in store.glob(f"config/{name}*"):
                path.unlink()

    return harm


def _no_timers(store: Path) -> None:
    """Take away what tells how far timers are, and the queue that they come from."""
    _remove_config("timercheck")(store)
    shutil.rmtree(store / "consumequeue" / "rmq_sys_wheel_timer")


STATE: Final[list[Damage]] = [
    # ---- layout
    Damage("foreign-name", inflict.put_file("commitlog/notes.txt", b"?"), ("FS-NAME",)),
    Damage(
        "odd-name",
        inflict.put_file("commitlog/00000000000000000017"),
        ("FS-NAME", "FS-LEN"),
        # With a file under a wrong name nothing can be judged against the log, or edited.
        stays=("FS-NAME", "FS-LEN", "FS-GAP", "CQ-NOREC", "IX-KEY"),
    ),
    Damage("queue-named-00", _rename_queue, ("FS-NAME", "CQ-GAP"), "consumequeue"),
    Damage(
        "topic-renamed",
        _rename_topic,
        ("CQ-GAP", "CQ-MISMATCH", "FS-ORPHAN"),
        "consumequeue",
    ),
    Damage("directory-in-log", inflict.put_file("commitlog/copy/x", b"?"), ("FS-DIR",)),
    Damage(
        "segment-twice",
        _copy_segment,
        ("FS-DUP",),
        conf="storePathCommitLog=store/commitlog,store/commitlog-2",
    ),
    Damage("segment-ahead", inflict.append_segment, ("FS-ZERO",)),
    Damage("forget-topic", _forget_topic, ("FS-ORPHAN", "CO-TOPIC"), fixture="traffic"),
    # ---- configuration that is missing: repair writes it when it is asked to
    Damage("no-config", _remove_config(), ("CF-GONE",), "config", stays=("CF-GONE",)),
    Damage(
        "no-topics",
        _remove_config("topics.json"),
        ("CF-TOPICS",),
        "config/topics.json",
        stays=("CF-TOPICS",),
    ),
    Damage(
        "no-groups",
        _remove_config("subscriptionGroup.json"),
        ("CF-GONE",),
        "config/subscriptionGroup.json",
        fixture="traffic",
        stays=("CF-GONE",),
    ),
    Damage(
        "no-consumer-offsets",
        _remove_config("consumerOffset.json"),
        ("CO-GONE",),
        "config/consumerOffset.json",
        stays=("CO-GONE",),
    ),
    Damage(
        "no-delay-offsets",
        _remove_config("delayOffset.json"),
        ("DO-GONE",),
        "config/delayOffset.json",
        fixture="traffic",
        stays=("DO-GONE",),
    ),
    Damage(
        "no-timercheck",
        _remove_config("timercheck"),
        ("TC-GONE",),
        "config/timercheck",
        fixture="timer",
        stays=("TC-GONE",),
    ),
    Damage(
        "no-timercheck-nor-its-queue",
        _no_timers,
        ("TC-GONE",),
        "config/timercheck",
        fixture="timer",
        also=("CQ-GAP",),
        stays=("TC-GONE",),
    ),
    Damage("loop", _loop, ("FS-READ",), "consumequeue"),
    # ---- commitlog that depends on the configuration
    Damage("close-segment-early", _close_early, ("CL-BLANKSIZE",), conf="maxMessageSize=16"),
    Damage(
        "no-property-crc",
        lambda _: None,
        ("CL-NOPROPCRC",),
        conf="enabledAppendPropCRC=true",
        fixture="traffic",
        also=("BC-KEY",),  # releases before 5.2.0 ignore the key
    ),
    # ---- DLedger
    Damage("entry-number", _edit_entry(5, 8, 8), ("DL-ENTRY",), "dledger-*", fixture="dledger"),
    Damage("entry-term", _edit_entry(5, 16, 8), ("DL-ENTRY",), "dledger-*", fixture="dledger"),
    Damage("entry-crc", _edit_entry(5, 40, 4), ("DL-ENTRY",), "dledger-*", fixture="dledger"),
    Damage(
        "dledger-index",
        inflict.edit_integer("dledger-*/index/*", 5 * 32 + 12, 4, lambda v: v + 1),
        ("DL-ENTRY",),
        "dledger-*",
        fixture="dledger",
    ),
    Damage(
        "dledger-index-zeros",
        lambda store: inflict.write_at(
            inflict.one_file(store, "dledger-*/index/*"), 160, bytes(64)
        ),
        ("DL-ENTRY",),
        "dledger-*",
        fixture="dledger",
    ),
    Damage(
        "dledger-index-gone",
        inflict.remove("dledger-*/index"),
        ("DL-ENTRY",),
        "dledger-*",
        fixture="dledger",
    ),
    Damage(
        "converted-to-dledger",
        inflict.put_file(f"commitlog/{0:020}", bytes(SEGMENT)),
        ("CL-MIXDL",),
        "dledger-*",
        fixture="dledger",
    ),
    # ---- checkpoint and abort
    Damage("physic-ahead", _set(PHYSIC, lambda v: v + HOUR_MS), ("CP-AHEAD",), CHECKPOINT),
    Damage("logics-ahead", _set(LOGICS, lambda v: v + HOUR_MS), ("CP-AHEAD",), CHECKPOINT),
    Damage("index-ahead", _set(INDEX, lambda _: 1 << 60), ("CP-AHEAD",), CHECKPOINT),
    Damage("no-times", _set(PHYSIC, lambda _: 0), ("CP-ZERO",), CHECKPOINT),
    Damage("no-checkpoint", inflict.remove(CHECKPOINT), ("CP-ZERO",), CHECKPOINT),
    Damage(
        "cut-checkpoint", inflict.resize_file(CHECKPOINT, lambda _: 100), ("CP-LEN",), CHECKPOINT
    ),
    Damage("confirm-ahead", _set(CONFIRM, lambda _: 1 << 40), ("CP-CONFIRM",), CHECKPOINT),
    Damage(
        "logics-offset-ahead",
        _set(LOGICS_OFFSET, lambda _: 1 << 40),
        ("CP-LOGICOFF",),
        CHECKPOINT,
        also=("IX-MISSING",),
    ),
    Damage(
        "logics-offset-odd",
        _set(LOGICS_OFFSET, lambda _: 13),
        ("CP-LOGICOFF",),
        CHECKPOINT,
        also=("IX-MISSING",),
    ),
    Damage("abort", inflict.put_file("abort"), ("AB-PRESENT",), also=("IX-CRASH",)),
    Damage(
        "recovery-from-afar",
        _recover_from_afar,
        ("CP-REACH", "AB-PRESENT"),
        CHECKPOINT,
        conf="commitLogRecoverMaxNum=1",
        version="5.5.0",
        also=("IX-CRASH", "IX-MISSING"),
    ),
    # ---- timer
    Damage(
        "cut-wheel",
        inflict.resize_file(TIMER, lambda v: v - 32),
        ("TW-LEN",),
        TIMER,
        fixture="timer",
    ),
    Damage("slot-first", _edit_slot(8, lambda v: v + 1), ("TW-POS",), TIMER, fixture="timer"),
    Damage("slot-last", _edit_slot(16, lambda v: v + 52), ("TW-POS",), TIMER, fixture="timer"),
    Damage(
        "slot-first-negative",
        _edit_slot(8, lambda v: v - (1 << 63)),
        ("TW-POS",),
        TIMER,
        fixture="timer",
    ),
    Damage("slot-emptied", _edit_slot(24, lambda _: 0, 4), ("TW-POS",), TIMER, fixture="timer"),
    Damage(
        "timer-size",
        _edit_timer(0, 4, lambda v: v + 1),
        ("TL-REC",),
        TIMER,
        fixture="timer",
        also=("TW-POS", "TC-AHEAD"),
    ),
    Damage("timer-link", _edit_timer(4, 8, lambda _: 1 << 40), ("TL-REC",), TIMER, fixture="timer"),
    Damage(
        "timer-record", _edit_timer(28, 8, lambda v: v + 1), ("TL-REF",), TIMER, fixture="timer"
    ),
    Damage(
        "timer-record-size",
        _edit_timer(36, 4, lambda v: v + 1),
        ("TL-REF",),
        TIMER,
        fixture="timer",
    ),
    Damage(
        "timer-flushed",
        inflict.edit_integer("config/timercheck", 8, 8, lambda v: v + (1 << 40)),
        ("TC-AHEAD",),
        TIMER,
        fixture="timer",
    ),
    Damage(
        "timer-queue-read",
        inflict.edit_integer("config/timercheck", 16, 8, lambda v: v + 1000),
        ("TC-AHEAD",),
        TIMER,
        fixture="timer",
    ),
    # ---- epochs and JSON
    Damage(
        "epoch-count",
        inflict.put_file("epochFileCheckpoint", FIXED_EPOCH.replace("2", "3", 1).encode()),
        ("EP-CRC",),
    ),
    Damage(
        "epoch-crc",
        inflict.put_file("epochFileCheckpoint", FIXED_EPOCH.replace("\n0\n", "\n7\n").encode()),
        ("EP-CRC",),
    ),
    Damage(
        "epoch-past-end",
        inflict.put_file("epochFileCheckpoint", b"2\n0\n1-0\n2-99999999999\n"),
        ("EP-RANGE",),
        fixture="traffic",
    ),
    Damage(
        "epoch-inside-record",
        inflict.put_file("epochFileCheckpoint", b"2\n0\n1-0\n2-7\n"),
        ("EP-RANGE",),
        fixture="traffic",
    ),
    Damage(
        "epoch-order", inflict.put_file("epochFileCheckpoint", b"2\n0\n2-0\n1-4096\n"), ("EP-CRC",)
    ),
    Damage(
        "lose-json",
        inflict.remove("config/consumerOffset.json"),
        ("CF-VERSION",),
        "config/consumerOffset.json.bak",
        also=("CO-RANGE",),
    ),
    Damage(
        "cut-json",
        inflict.edit_text("config/topics.json", lambda t: t[: len(t) // 2]),
        ("CF-JSON",),
        "config",
        also=("CF-VERSION",),
    ),
    Damage(
        "fewer-queues-to-read",
        _read_fewer,
        ("CF-QUEUES",),
        "config",
        stays=("CF-QUEUES",),
        fixture="traffic",
    ),
    Damage("old-json", _age, ("CF-VERSION",), "config"),
    Damage(
        "offset-ahead", _edit_document("consumerOffset.json", _far_ahead), ("CO-RANGE",), "config"
    ),
    Damage(
        "offset-of-nobody",
        _edit_document("consumerOffset.json", _unknown_topic),
        ("CO-TOPIC",),
        "config",
    ),
    Damage(
        "delay-ahead",
        _edit_document("delayOffset.json", _delay_ahead),
        ("DO-RANGE",),
        "config",
        fixture="traffic",
    ),
    Damage(
        "filter-size",
        _edit_document("consumerFilter.json", _other_size),
        ("BF-PARAM",),
        "config",
        fixture="ext",
    ),
    Damage(
        "filter-bits",
        _edit_document("consumerFilter.json", _other_bits),
        ("BF-POS",),
        "config",
        fixture="ext",
    ),
]
