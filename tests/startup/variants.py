"""The damaged stores that predictions are compared on."""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests import inflict, plain_store
from tests.startup import harm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.startup.harm import Harm

SEGMENT: Final = 16384
NEWEST_SEGMENTS: Final = 0.9  # within the three newest
FIELDS: Final = (
    "total_size",
    "magic_code",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "physical_offset",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_length",
    "topic_length",
    "topic",
    "properties_length",
    "properties",
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One damaged store.

    Attributes:
        name: unique.
        steps: what is done to it, in order.
        base: `clean` or `crashed`.
        settings: of the broker.conf beyond the geometry.
        in_sample: whether it is opened in each run, not only when all are asked for.
    """

    name: str
    steps: tuple[Harm, ...] = ()
    base: str = "clean"
    settings: Mapping[str, object] = field(default_factory=dict)
    in_sample: bool = False

    def __str__(self) -> str:
        return self.name


ABORT: Final = harm.touch("abort")
NO_QUEUES: Final = harm.remove("consumequeue")
NO_INDEX: Final = harm.remove("index")
NO_CHECKPOINT: Final = harm.remove("checkpoint")
REBUILD: Final = (NO_QUEUES, NO_INDEX, NO_CHECKPOINT)


def both(name: str, *steps: Harm, in_sample: bool = False) -> Iterator[Variant]:
    """Yield a variant after a clean stop and one with `abort`."""
    yield Variant(name, steps, in_sample=in_sample)
    yield Variant(f"{name}, abort", (*steps, ABORT), in_sample=in_sample)


def _whole() -> Iterator[Variant]:
    yield Variant("untouched", in_sample=True)
    yield Variant("crashed", base="crashed", in_sample=True)
    yield Variant("abort added", (ABORT,))
    yield Variant("abort removed", (harm.remove("abort"),), base="crashed")
    yield Variant("abort.bak only", (harm.touch("abort.bak"),))


def _records() -> Iterator[Variant]:
    for where in (0.02, 0.3, 0.55, 0.8, 0.9, 0.999):
        yield from both(
            f"body flip at {where}", inflict.flip_field("body", where=where), in_sample=where == 0.9
        )
    for name in FIELDS:
        flip = inflict.flip_field(name, where=NEWEST_SEGMENTS)
        yield Variant(f"{name} flip", (flip,))
        yield Variant(f"{name} flip, rebuild", (flip, *REBUILD))
        yield Variant(f"{name} flip, rebuild after crash", (flip, *REBUILD, ABORT))
    high = inflict.flip_field("total_size", byte=0, bit=6, where=NEWEST_SEGMENTS)
    yield from both("total_size flip of the high byte", high)
    for bit, meaning in ((4, "IPv6 born host"), (3, "commit"), (2, "prepared"), (7, "inner batch")):
        flip = inflict.flip_field("sys_flag", bit=bit, where=NEWEST_SEGMENTS)
        yield Variant(f"sys_flag flip: {meaning}", (flip,))
        yield Variant(f"sys_flag flip: {meaning}, rebuild", (flip, *REBUILD, ABORT))
    yield Variant("rollback of a record, rebuild", (_rollback, *REBUILD, ABORT))
    yield Variant(
        "topic with a slash, rebuild",
        (inflict.replace_bytes("topic", lambda old: b"o/" + old[2:], where=0.9), *REBUILD, ABORT),
    )
    yield Variant(
        "topic with a NUL, rebuild",  # half a minute: the broker tries thirty times
        (inflict.replace_bytes("topic", lambda old: b"\0" + old[1:], where=0.9), *REBUILD, ABORT),
    )
    yield Variant(
        "queue offset far ahead, rebuild",
        (inflict.set_field("queue_offset", lambda old: old + 5000, where=0.9), *REBUILD, ABORT),
    )
    yield Variant("delay level no number, rebuild", (_bad_delay, *REBUILD, ABORT))
    yield from both("zeroed sector", inflict.zero_sector(where=0.95), in_sample=True)
    yield from both("zeroed sectors", inflict.zero_sector(where=0.7, sectors=20))
    yield from both("garbage", inflict.garbage(where=0.92))
    yield Variant("swapped records", (inflict.swap_records,))


def _tail() -> Iterator[Variant]:
    yield from both("torn tail", inflict.tear_tail, in_sample=True)
    yield from both("last record gone", harm.last_record_gone)
    yield from both("stale record behind the tail", inflict.stale_tail)
    yield from both("stale records resurrected", _resurrect)
    yield from both("first blank too long", inflict.edit_blank(lambda old: old + 1))
    yield from both("last blank too long", _last_blank(lambda old: old + 1), in_sample=True)
    yield from both("last blank too short", _last_blank(lambda old: old - 1))
    yield from both("last blank negative", _last_blank(lambda _: -5))
    yield from both("first blank gone", inflict.erase_blank)
    yield from both("last blank gone", _erase_last_blank)
    yield Variant("old bytes in a blank", (inflict.fill_blank,))
    yield from both("blank at the tail", _blank_at_tail)


def _segments() -> Iterator[Variant]:
    yield from both("first segment gone", harm.remove_segments(0, 1))
    yield from both("expired segments", harm.remove_segments(0, 4), in_sample=True)
    yield from both("middle segment gone", harm.remove_segments(5, 6))
    yield from both("second-last segment gone", harm.remove_segments(-2, -1), in_sample=True)
    yield from both("last segment gone", harm.remove_segments(-1, 99))
    yield from both("last three segments gone", harm.remove_segments(-3, 99))
    yield from both("log gone", inflict.remove_log, in_sample=True)
    yield Variant("first segment cut", (inflict.cut_segment(0, lambda size: size - 4096),))
    yield Variant(
        "last segment cut", (inflict.cut_segment(-1, lambda size: size // 2),), in_sample=True
    )
    yield Variant("last segment longer", (inflict.cut_segment(-1, lambda size: size + 4096),))
    yield from both("last segment empty", inflict.cut_segment(-1, lambda _: 0), in_sample=True)
    yield Variant("middle segment empty", (inflict.cut_segment(3, lambda _: 0),))
    yield Variant("foreign file", (harm.touch("commitlog/notes.txt", b"x"),))
    yield Variant("foreign file of the right length", (harm.touch("commitlog/x", bytes(SEGMENT)),))
    yield Variant("foreign empty file", (harm.touch("commitlog/z"),))
    yield Variant("directory in the log", (harm.make_directory("commitlog/lost+found"),))
    yield from both("one segment in advance", harm.add_segments(1))
    yield from both("two segments in advance", harm.add_segments(2), in_sample=True)
    yield from both("a segment behind a gap", harm.add_segments(1, gap=2))
    yield Variant("a short segment in advance", (harm.add_segments(1, cut=100),))
    yield from both("segment with a wrong name", harm.rename_segment(-1, 4096))
    for number in (-1, -2, -3, -4, -9, -10, -11, 0):
        yield from both(f"body flip in segment {number}", harm.body_in_segment(number))


def _queues() -> Iterator[Variant]:
    yield from both("queues gone", NO_QUEUES, in_sample=True)
    yield from both("queues and checkpoint gone", NO_QUEUES, NO_CHECKPOINT)
    yield from both("queues and index gone", NO_QUEUES, NO_INDEX)
    yield from both("queues, index, checkpoint gone", *REBUILD, in_sample=True)
    yield from both("one topic's queues gone", harm.remove("consumequeue/rare"))
    yield from both("one queue gone", harm.remove("consumequeue/orders/0"))
    for number in (0, 1, -2, -1):
        yield from both(f"queue file {number} gone", harm.remove_queue_file(number))
    yield Variant("queue file cut", (harm.resize_queue_file(-1, -20),))
    yield Variant("queue file longer", (harm.resize_queue_file(0, 20),))
    yield from both("last queue file empty", harm.resize_queue_file(-1, -400))
    yield from both("hole in an old queue file", harm.zero_units(5, 3))
    yield from both("hole in a new queue file", harm.zero_units(-30, 3), in_sample=True)
    yield from both(
        "hole at the beginning of the last queue file", harm.fill_queue_file(-1, bytes(60))
    )
    yield from both("last queue file of zeros", harm.empty_last_queue_file(), in_sample=True)
    yield from both("third-last queue file of zeros", harm.fill_queue_file(-3, bytes(400)))
    yield from both("unit with a negative offset", harm.write_units(-25, [(-1, 200, 0)]))
    yield from both("unit far ahead", harm.write_units(-1, [(1 << 40, 200, 0)]))
    yield from both("unit in the middle far ahead", harm.write_units(-25, [(1 << 40, 200, 0)]))
    yield from both("queue ahead of the log", harm.append_units(3))
    yield from both("queue far ahead of the log", harm.append_units(5, beyond=5 * SEGMENT))
    yield from both("queues behind by one", harm.behind(1), in_sample=True)
    yield from both("queues behind by ten", harm.behind(10))
    yield from both("newest unit gone", harm.newest_unit_gone, in_sample=True)
    yield from both("units of two segments gone", harm.units_from(0.87), in_sample=True)
    yield from both("units of half the log gone", harm.units_from(0.5))
    gone = harm.last_record_rolled_back
    yield from both("empty queue, queues behind", harm.empty_queue, harm.behind(2))
    yield from both("empty queue", harm.empty_queue)
    yield from both("empty last file, queues behind", harm.ghost_queue, harm.behind(2))
    yield from both("empty last file, nothing newer", gone, harm.ghost_queue, in_sample=True)
    yield from both("empty last file", harm.ghost_queue)
    yield from both("pre-blank only", harm.remove("consumequeue"), _pre_blank_queue)
    yield Variant("foreign file in a queue", (harm.touch("consumequeue/orders/0/x", b"x"),))
    yield Variant("empty queue directory", (harm.make_directory("consumequeue/orders/9"),))
    yield from both("empty topic directory", harm.make_directory("consumequeue/nothing"))
    yield Variant("queue directory with a name", (harm.make_directory("consumequeue/orders/x"),))
    yield Variant("queue directory below zero", (harm.make_directory("consumequeue/orders/-5"),))
    yield Variant("file among the topics", (harm.touch("consumequeue/x", b"x"),))


def _names() -> Iterator[Variant]:
    """Names that Java reads as a number, and that are not those which brokers build."""
    queue, arabic_zero = "consumequeue/orders/0", "\u0660"
    for name in ("00", "+0", "-0", " 0", "-1", arabic_zero):
        is_sampled = name == "00"
        yield from both(
            f"queue named {name!a}",
            harm.rename(queue, f"consumequeue/orders/{name}"),
            in_sample=is_sampled,
        )
    yield from both("queue named twice", harm.copy("consumequeue/orders/1", f"{queue}0"))
    for start, name in ((0, "0"), (400, "400"), (400, "+0000000000000000400")):
        steps = harm.rename(f"{queue}/{start:020}", f"{queue}/{name}")
        yield from both(f"queue file named {name}", steps)
    segments = (
        (0, "0"), (1, f"{SEGMENT}"), (1, f"+{SEGMENT:019}"), (0, arabic_zero * 20),
        (13, f"0{13 * SEGMENT:020}"),
    )  # fmt: skip
    for number, name in segments:
        steps = harm.rename(f"commitlog/{number * SEGMENT:020}", f"commitlog/{name}")
        yield from both(f"segment named {name!a}", steps, in_sample=name == f"{SEGMENT}")


def _small_files() -> Iterator[Variant]:
    yield from both("checkpoint gone", NO_CHECKPOINT)
    yield from both("checkpoint of zeros", harm.checkpoint(physic=0, logics=0, index=0))
    yield from both(
        "checkpoint ahead", harm.checkpoint_at(0.999, shift_ms=harm.HOUR_MS), in_sample=True
    )
    yield from both("checkpoint short", inflict.resize_file("checkpoint", lambda _: 12))
    yield from both("checkpoint empty", inflict.resize_file("checkpoint", lambda _: 0))
    yield from both("checkpoint negative", harm.checkpoint(physic=-1, logics=-1))
    yield Variant("checkpoint a directory", (NO_CHECKPOINT, harm.make_directory("checkpoint")))
    for where in (0.3, 0.6, 0.93):
        yield Variant(
            f"slow broker, checkpoint at {where}",
            (harm.spread(1000), harm.checkpoint_at(where), ABORT),
            in_sample=where == 0.6,
        )
        yield Variant(
            f"slow broker, checkpoint at {where}, queues behind",
            (harm.units_from(where - 0.05), harm.spread(1000), harm.checkpoint_at(where), ABORT),
        )
        yield Variant(
            f"checkpoint's offset at {where}",
            (harm.units_from(where - 0.05), harm.logics_offset_at(where), ABORT),
        )
    yield Variant("slow broker", (harm.spread(1000), ABORT))
    first = harm.first_body_of_segment(-4)
    at_it = harm.checkpoint_at_segment(-4)
    steps = (first, harm.spread(1000), at_it, ABORT)
    yield Variant("slow broker, first body", steps, in_sample=True)
    yield Variant("first body of a segment", (first,))
    yield Variant("slow broker, body flip", (harm.body_in_segment(-2), harm.spread(1000), ABORT))
    yield from both("index gone", NO_INDEX)
    yield from both("oldest index file gone", harm.remove_index(0))
    yield from both("newest index file gone", harm.remove_index(-1))
    yield from both("index file short", harm.resize_index(-1, 30))
    yield from both("index file empty", harm.resize_index(0, 0))
    yield from both("index file named by a negative number", harm.touch("index/-5"))
    yield from both("index file named by too large a number", harm.touch(f"index/{'9' * 20}"))
    newest = inflict.flip_field("magic_code", where=0.999)
    yield from both("index past a cut log", harm.checkpoint(index=1 << 50), newest)
    yield from both("foreign file in the index", harm.touch("index/x", b"x"))
    yield from both("directory in the index", harm.make_directory("index/20200101000000000"))
    yield from both("named directory in the index", harm.make_directory("index/x"))


def _settings() -> Iterator[Variant]:
    recheck = {"recheckReputOffsetFromCq": True}
    yield Variant("queues gone, recheck", (NO_QUEUES,), settings=recheck, in_sample=True)
    # The queue that reached furthest loses its file: 5.5.1 forgets how far it reached.
    cut = (harm.only_newest("rare/0"), inflict.flip_field("body", where=0.985))
    units = harm.units_from(0.5, but="rare")
    yield Variant("furthest queue emptied, recheck", (units, *cut), settings=recheck)
    yield Variant("furthest queue emptied", (units, *cut))
    yield Variant(
        "middle segment gone, recheck", (NO_QUEUES, harm.remove_segments(5, 6)), settings=recheck
    )
    old = inflict.flip_field("body_length", where=0.3)
    yield Variant("old body length, queues gone, recheck", (old, NO_QUEUES), settings=recheck)
    magic = inflict.flip_field("magic_code", where=0.3)
    yield Variant("old magic, queues gone, recheck", (magic, NO_QUEUES), settings=recheck)
    yield Variant("old magic, queues gone", (magic, NO_QUEUES))
    topic = inflict.flip_field("topic_length", where=0.3)
    yield Variant("old topic length, queues gone", (topic, NO_QUEUES))
    size = inflict.flip_field("total_size", where=0.3)
    yield Variant("old total size, queues gone", (size, NO_QUEUES))
    yield Variant("old total size, queues gone, recheck", (size, NO_QUEUES), settings=recheck)
    for count in (3, 100):
        settings = {"commitLogRecoverMaxNum": count}
        yield Variant(f"queues gone, {count} files", (NO_QUEUES,), settings=settings)
        yield Variant(f"rebuild after crash, {count} files", (*REBUILD, ABORT), settings=settings)
    body = inflict.flip_field("body", where=0.9)
    yield Variant("body flip, no CRC check", (body,), settings={"checkCRCOnRecover": False})
    safe = {"messageIndexSafe": True}
    yield Variant("slow broker, safe index", (harm.spread(1000), ABORT), settings=safe)
    yield Variant("safe index", (), settings=safe)
    yield Variant("no index kept", (*REBUILD, ABORT), settings={"messageIndexEnable": False})
    quick = {"enableAcceleratedRecovery": True}
    no_offset = harm.checkpoint(logics_offset=0)
    yield Variant("accelerated without offset", (no_offset, ABORT), settings=quick)
    behind = (harm.units_from(0.75), harm.logics_offset_at(0.8), ABORT)
    yield Variant("accelerated, units missing", behind, settings=quick)
    yield Variant("accelerated", (harm.logics_offset_at(0.8), ABORT), settings=quick)
    checked = {"checkCommitLogOffsetOnRecover": True}
    foreign = inflict.set_field("physical_offset", lambda old: old - SEGMENT, where=0.93)
    yield Variant("foreign offset, checked", (foreign, ABORT), settings=checked)
    yield Variant("foreign offset", (foreign, ABORT))
    yield Variant("property CRC forced", (), settings={"forceVerifyPropCRC": True})


def _rollback(store: Path) -> None:
    record = inflict.record_at(store, NEWEST_SEGMENTS)
    position, _ = record.places()["sys_flag"]
    inflict.flip_bits(record.path, record.position + position + 3, 0xC)


def _bad_delay(store: Path) -> None:
    record = next(
        record for record in plain_store.records(store) if record.topic == "SCHEDULE_TOPIC_XXXX"
    )
    position, _ = record.places()["properties"]
    place = record.bytes_of("properties").index(b"DELAY\x01") + 6
    inflict.write_at(record.path, record.position + position + place, b"x")


def _odd_queue_file(root: Path) -> None:
    """Copy a queue file to a name that is no multiple of its length."""
    for directory in plain_store.queue_directories(root):
        paths = plain_store.numbered(directory)
        if len(paths) > 1:
            size = paths[-1].stat().st_size
            name = int(paths[-1].name) + 2 * size + 96
            shutil.copy2(paths[-2], directory / f"{name:020}")
            return
    message = "no queue of several files"
    raise inflict.NotApplicable(message)


def _bad_further_offset(store: Path) -> None:
    """Let a record name a further queue, and no number as its offset there."""
    name = b"INNER_MULTI_QUEUE_OFFSET\x01"
    records = [
        record for record in plain_store.records(store) if name in record.bytes_of("properties")
    ]
    if not records:
        reason = "no record goes to further queues"
        raise inflict.NotApplicable(reason)
    record = records[len(records) // 2]
    position, _ = record.places()["properties"]
    place = record.bytes_of("properties").index(name) + len(name)
    inflict.write_at(record.path, record.position + position + place, b"x")


def _last_blank(change: Callable[[int], int]) -> Harm:
    def step(store: Path) -> None:
        path, position, _ = plain_store.blanks(store)[-1]
        inflict.set_integer(path, position, 4, change)

    return step


def _erase_last_blank(store: Path) -> None:
    path, position, _ = plain_store.blanks(store)[-1]
    inflict.write_at(path, position, bytes(8))


def _blank_at_tail(store: Path) -> None:
    path, position = plain_store.tail(store)
    rest = path.stat().st_size - position
    inflict.write_at(path, position, struct.pack(">ii", rest, plain_store.BLANK_MAGIC))


def _resurrect(store: Path) -> None:
    """Put an old record exactly at the tail: it looks like a continuation."""
    path, position = plain_store.tail(store)
    inflict.write_at(path, position, plain_store.records(store)[3].raw)


def _pre_blank_queue(store: Path) -> None:
    path = store / "consumequeue/orders/0/00000000000000000000"
    path.parent.mkdir(parents=True)
    path.write_bytes(plain_store.UNIT.pack(0, 0x7FFFFFFF, 0) * 20)


def _texts() -> Iterator[Variant]:
    """Yield what a person may write into a broker.conf, and Java passes over."""
    lengths = {"space": "400 ", "unit": "400b", "none": "", "other": "600"}
    for name, text in lengths.items():
        settings = {"mappedFileSizeConsumeQueue": text}
        yield Variant(f"queue length: {name}", (), settings=settings, in_sample=name == "space")
    yield Variant("log length: space", (), settings={"mappedFileSizeCommitLog": "16384 "})
    yield Variant("index length: space", REBUILD, settings={"maxIndexNum": "400 "})
    body = inflict.flip_field("body", where=NEWEST_SEGMENTS)
    for text in ("true ", "yes", "TRUE"):
        yield Variant(f"flag: {text!r}", (body,), settings={"checkCRCOnRecover": text})
    for text in ("0", "-1", "1 ", "1"):
        settings = {"commitLogRecoverMaxNum": text}
        yield Variant(f"files to recover: {text!r}", (*REBUILD, ABORT), settings=settings)


VARIANTS: Final = (
    *_whole(),
    *_records(),
    *_tail(),
    *_segments(),
    *_queues(),
    *_names(),
    *_small_files(),
    *_settings(),
    *_texts(),
)

# Of whole fixtures, which differ in versions, topics and kinds of queues.
FIXTURE_VARIANTS: Final = (
    Variant("untouched", in_sample=True),
    Variant("abort added", (ABORT,)),
    Variant("queues gone", (NO_QUEUES, harm.remove("batchconsumequeue"))),
    Variant("rebuild after crash", (*REBUILD, harm.remove("batchconsumequeue"), ABORT)),
    Variant("body flip", (inflict.flip_field("body", where=NEWEST_SEGMENTS),)),
    Variant("body flip, abort", (inflict.flip_field("body", where=NEWEST_SEGMENTS), ABORT)),
    Variant("first segment gone", (inflict.remove_segment(0),)),
    Variant("torn tail", (inflict.tear_tail, ABORT)),
    Variant("light queue gone", (harm.remove("consumequeue/%LMQ%home-1"),), in_sample=True),
    Variant("queue file under an odd name", (_odd_queue_file,)),
    Variant("further queue offset", (_bad_further_offset,)),
    Variant("further queue offset, abort", (_bad_further_offset, ABORT), in_sample=True),
    Variant("further queue offset, rebuild", (_bad_further_offset, *REBUILD)),
    Variant("extension astray", (harm.extension(0, b"\0\x7f"),)),
    Variant("extension astray, abort", (harm.extension(0, b"\x7f\x7f"), ABORT)),
    Variant("extension ends early", (harm.extension(0, b"\0\0"),)),
    Variant("extension of another length", (harm.extension(3000, b"\0"),)),
)
