"""Named damage to the commitlog."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final

from tests import inflict, plain_store
from tests.inflict import Damage, NotApplicable

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plain_store import Record

DAY_MS: Final = 86_400_000
EARLY, MIDDLE, LATE = 0.1, 0.5, 0.97
# A record's number is wrong, or it cannot be dispatched any more, and its unit is right.
_UNIT_IS_RIGHT: Final = ("BQ-UNIT",)
WHERE: Final = {"early": EARLY, "middle": MIDDLE, "late": LATE}


def _spread(name: str, make: object, codes: tuple[str, ...]) -> list[Damage]:
    """Do one thing early, in the middle and late in the log: recovery looks at the newest only."""
    assert callable(make)
    return [Damage(f"{name}-{word}", make(where), codes) for word, where in WHERE.items()]


def _is_ordinary(record: Record) -> bool:
    return record.is_ordinary


def _is_half(record: Record) -> bool:
    return record.topic == "RMQ_SYS_TRANS_HALF_TOPIC"


def _is_commit(record: Record) -> bool:
    return record.transaction == 0x8


def _is_multi(record: Record) -> bool:
    return "INNER_MULTI_QUEUE_OFFSET" in record.properties


def _is_compressed(record: Record) -> bool:
    return bool(record.integer("sys_flag") & 1)


def _has_property_crc(record: Record) -> bool:
    return b"__CRC32#\x01" in record.bytes_of("properties")


def _give_another_writer(store: Path) -> None:
    """Let the records of the second file name another broker, and the day before."""
    _, *later = plain_store.segments(store)
    records = [record for record in plain_store.records(store) if record.path in later[:-1][:1]]
    if not records or records[0].position:
        raise NotApplicable  # of three files the second must begin with a record
    for record in records:
        place, size = record.places()["store_host"]
        port = struct.pack(">i", record.integer("store_host") % (1 << 16) + 1)
        inflict.write_at(record.path, record.position + place + size - len(port), port)
        place, _ = record.places()["store_timestamp"]
        time = struct.pack(">q", record.integer("store_timestamp") - DAY_MS)
        inflict.write_at(record.path, record.position + place, time)


COMMITLOG: Final[list[Damage]] = [
    *_spread("flip-body", lambda at: inflict.flip_field("body", where=at), ("CL-CRC",)),
    *_spread("flip-body-crc", lambda at: inflict.flip_field("body_crc", where=at), ("CL-CRC",)),
    *_spread(
        "flip-magic", lambda at: inflict.flip_field("magic_code", bit=4, where=at), ("CL-MAGIC",)
    ),
    *_spread(
        "flip-size", lambda at: inflict.flip_field("total_size", bit=1, where=at), ("CL-SIZE",)
    ),
    *_spread("zero-sector", lambda at: inflict.zero_sector(where=at), ("CL-MAGIC",)),
    *_spread("zero-8-sectors", lambda at: inflict.zero_sector(where=at, sectors=8), ("CL-MAGIC",)),
    *_spread("garbage", lambda at: inflict.garbage(where=at), ("CL-MAGIC",)),
    *_spread(
        "wrong-physical-offset",
        lambda at: inflict.set_field("physical_offset", lambda old: old + 512, where=at),
        ("CL-PHYOFF",),
    ),
    *_spread(
        "zero-store-time",
        lambda at: inflict.set_field("store_timestamp", lambda _: 0, where=at),
        ("CL-TIME",),
    ),
    Damage("negative-size", inflict.set_field("total_size", lambda _: -1), ("CL-SIZE",)),
    Damage("huge-size", inflict.set_field("total_size", lambda _: 0x7FFFFFFF), ("CL-SIZE",)),
    Damage("size-of-one", inflict.set_field("total_size", lambda _: 1), ("CL-SIZE",)),
    Damage("negative-body-length", inflict.set_field("body_length", lambda _: -5), ("CL-SIZE",)),
    Damage("huge-body-length", inflict.set_field("body_length", lambda _: 1 << 30), ("CL-SIZE",)),
    Damage("negative-topic-length", inflict.set_field("topic_length", lambda _: -1), ("CL-TOPIC",)),
    Damage("flip-topic-length", inflict.flip_field("topic_length"), ("CL-SIZE",)),
    Damage("flip-properties-length", inflict.flip_field("properties_length"), ("CL-SIZE",)),
    Damage("flip-ipv6-bit", inflict.flip_field("sys_flag", bit=4), ("CL-SIZE",)),
    Damage("unknown-sys-flag", inflict.flip_field("sys_flag", byte=0, bit=3), ("CL-SYSFLAG",)),
    Damage(
        "compression-without-flag", inflict.flip_field("sys_flag", byte=2, bit=0), ("CL-SYSFLAG",)
    ),
    Damage("batch-bit-alone", inflict.flip_field("sys_flag", bit=6), ("CL-BATCH",)),
    Damage(
        "false-compression", inflict.flip_field("sys_flag", bit=0), ("CL-DECOMP",), level="deep"
    ),
    Damage(
        "prepared-type",
        inflict.flip_field("sys_flag", bit=2),
        ("CL-TRANTYPE", "CQ-EXTRA"),
        stays=_UNIT_IS_RIGHT,
    ),
    Damage(
        "commit-without-half",
        inflict.set_field("prepared_transaction_offset", lambda old: old + 1, wanted=_is_commit),
        ("CL-TRANREF",),
        fixture="traffic",
    ),
    Damage(
        "negative-half",
        inflict.set_field(
            "prepared_transaction_offset", lambda old: old - (1 << 63), wanted=_is_commit
        ),
        ("CL-TRANREF",),
        fixture="traffic",
    ),
    Damage(
        "repeat-queue-offset",
        inflict.copy_field("queue_offset"),
        ("CL-QOFF-DUP",),
        stays=_UNIT_IS_RIGHT,
    ),
    Damage(
        "queue-offset-ahead",
        inflict.set_field("queue_offset", lambda old: old + (1 << 20)),
        ("CL-QOFF-GAP",),
        stays=_UNIT_IS_RIGHT,
    ),
    Damage(
        "flip-queue-id",
        inflict.flip_field("queue_id", bit=6, wanted=_is_ordinary),
        ("CQ-MISMATCH", "CL-QOFF-GAP", "CQ-GAP"),
        fixture="traffic",
    ),
    Damage(
        "flip-topic",
        inflict.replace_bytes(
            "topic", lambda old: old[:-1] + bytes([old[-1] ^ 1]), wanted=_is_ordinary
        ),
        ("CQ-MISMATCH", "CL-QOFF-GAP"),
        fixture="traffic",
        also=("IX-KEY", "CQ-GAP"),
    ),
    Damage("queue-numbered-anew", inflict.number_anew, ("CL-QOFF-BACK",)),
    Damage("flip-store-host", inflict.flip_field("store_host"), ("CL-FIELD",), level="deep"),
    Damage("flip-born-port", inflict.flip_field("born_host", byte=-3), ("CL-FIELD",), level="deep"),
    Damage(
        "flip-born-time", inflict.flip_field("born_timestamp", byte=-3), ("CL-FIELD",), level="deep"
    ),
    Damage("flip-attempts", inflict.flip_field("reconsume_times"), ("CL-FIELD",), level="deep"),
    Damage(
        "many-attempts",
        inflict.flip_field("reconsume_times", byte=0, bit=7),
        ("CL-FIELD",),
        level="deep",
    ),
    Damage(
        "illegal-topic",
        inflict.replace_bytes("topic", lambda old: b"/" + old[1:]),
        ("CL-TOPIC",),
    ),
    Damage(
        "property-without-separator",
        inflict.replace_bytes("properties", lambda old: old.replace(b"\x01", b"?", 1)),
        ("CL-PROPS", "IX-KEY"),
        level="deep",
    ),
    Damage(
        "property-not-utf8",
        inflict.replace_bytes("properties", lambda old: old[:-3] + b"\xff" + old[-2:]),
        ("CL-PROPS",),
        level="deep",
    ),
    Damage(
        "flip-with-property-crc",
        inflict.flip_field("born_timestamp", wanted=_has_property_crc),
        ("CL-PROPCRC",),
        fixture="property-crc",
    ),
    Damage(
        "further-queue-offset",
        inflict.replace_bytes(
            "properties",
            lambda old: re.sub(rb"(INNER_MULTI_QUEUE_OFFSET\x01)\d", rb"\1x", old),
            wanted=_is_multi,
        ),
        ("CL-LMQ", "CQ-LMQ"),
        fixture="lmq",
        also=("CL-QOFF-GAP", "CQ-GAP"),
    ),
    Damage(
        "further-queue-forgotten",
        inflict.forget_light_queue,
        ("CL-LMQ", "CQ-LMQ"),
        fixture="lmq",
        also=("CL-QOFF-GAP", "CQ-GAP"),
    ),
    Damage("swap-records", inflict.swap_records, ("CL-PHYOFF",)),
    Damage("torn-tail", inflict.tear_tail, ("CL-TAIL",)),
    Damage(
        "drop-last-records",
        inflict.drop_last_records,
        ("CQ-RANGE", "IX-KEY", "CP-AHEAD"),
        also=("CP-LOGICOFF",),
    ),
    Damage("stale-tail", inflict.stale_tail, ("CL-STALE",)),
    Damage("blank-too-long", inflict.edit_blank(lambda old: old + 1), ("CL-BLANKLEN",)),
    Damage("blank-too-short", inflict.edit_blank(lambda old: old - 1), ("CL-BLANKLEN",)),
    Damage("no-blank", inflict.erase_blank, ("CL-CHAIN",)),
    Damage("old-bytes-in-blank", inflict.fill_blank, ("CL-BLANKDATA",)),
    Damage("cut-last-segment", inflict.cut_segment(-1, lambda size: size // 2), ("FS-LEN",)),
    Damage("cut-first-segment", inflict.cut_segment(0, lambda size: size - 4096), ("FS-LEN",)),
    Damage("long-last-segment", inflict.cut_segment(-1, lambda size: size + 4096), ("FS-LEN",)),
    Damage("empty-last-segment", inflict.cut_segment(-1, lambda _: 0), ("FS-LEN",)),
    Damage("remove-all-segments", inflict.remove_log, ("FS-NOLOG",)),
    Damage(
        "segment-of-another-broker",
        _give_another_writer,
        ("CL-FOREIGN",),
        stays=("CL-FOREIGN",),
    ),
    Damage("remove-middle-segment", inflict.remove_segment(1), ("FS-GAP",)),
    Damage(
        "remove-last-segment",
        inflict.remove_segment(-1),
        ("CQ-RANGE", "IX-KEY", "CP-AHEAD"),
        also=("CP-LOGICOFF",),
    ),
    Damage("remove-first-segment", inflict.remove_segment(0), ("CQ-EXPIRED", "CO-RANGE")),
]
