"""Ailments of stores: how each is inflicted, what doctor must say of it, and what ends it."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rmqtool import clock
from tests import inflict, plain_store
from tests.archives.packed import as_tar
from tests.cases.test_cases import HERE as CASES
from tests.cases.test_cases import inflict as inflict_step
from tests.stores import fixture_store

OLD: Final = "rocketmq-4.9.3-traffic"
TRAFFIC: Final = "rocketmq-5.3.3-traffic"
DAY_SECONDS: Final = 86_400
SECOND: Final = 131072  # where the second file of the log begins
REPAIR: Final = "rmqtool repair store --in-place"
RESET: Final = "rmqtool repair store --reset-config --in-place"
CLAMP: Final = "rmqtool repair store --clamp-offsets --in-place"
BRIDGE: Final = "rmqtool repair store --bridge-missing --in-place"
LENGTH: Final = "sed -i -e '$a mappedFileSizeCommitLog=131072' broker.conf"
LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
CONF: Final = "broker.conf"
START: Final = "start the broker"
LOSES_NOTHING: Final = "the start itself loses nothing"
Deed = Callable[[Path], object]


def nothing(_: Path) -> None:
    """Leave a store as it is."""


@dataclass(frozen=True, slots=True)
class Ailment:
    """One ailment.

    Attributes:
        name: of it, or of a directory of `tests/cases`.
        cause: part of what the first step says is the case.
        consequence: part of what it says follows.
        commands: in their order, without --broker-conf and --broker-version.
        fixture: that it is inflicted on; of a case its own.
        inflict: does it to the store.
        conf: lines that come last in broker.conf; None gives none.
        release: that is to run on the store; None leaves it to the store.
        by_hand: what is done as the advice says, once the commands before it have run.
        advice: part of the first advice.
        end: part of the first advice in the end.
        asked: what doctor is asked about.
    """

    name: str
    cause: str
    consequence: str
    commands: tuple[str, ...] = ()
    fixture: str = ""
    inflict: Deed = nothing
    conf: str | None = None
    release: str | None = None
    by_hand: Deed | None = None
    advice: str = ""
    end: str = START
    asked: str = "store"

    def __str__(self) -> str:
        return self.name


def age(store: Path) -> None:
    """Let the files of the log have been written six days ago."""
    then = clock.start_ms() / 1000 - 6 * DAY_SECONDS
    for path in (store / "commitlog").iterdir():
        os.utime(path, (then, then))


def gone(pattern: str) -> Deed:
    """Delete files and directories."""

    def do(store: Path) -> None:
        for path in store.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    return do


def of_another(name: str, *paths: str) -> Deed:
    """Put files and directories of another store in the place of those of one."""

    def do(store: Path) -> None:
        other = store.parent / "other"
        other.mkdir()
        sound = fixture_store(name, other)
        for path in paths:
            gone(path)(store)
            copy = shutil.copytree if (sound / path).is_dir() else shutil.copy
            copy(sound / path, store / path)
            for copied in (store / path, *(store / path).rglob("*")):
                os.utime(copied)
        shutil.rmtree(other)

    return do


def read_queues(count: int) -> Deed:
    """Set how many queues of a topic consumers may read."""

    def do(store: Path) -> None:
        path = store / "config" / "topics.json"
        document = json.loads(path.read_text())
        document["topicConfigTable"]["traffic-orders"]["readQueueNums"] = count
        path.write_text(json.dumps(document))

    return do


def empty_last(store: Path) -> None:
    """Leave an empty last file of the log, and no offsets."""
    last = plain_store.segments(store)[-1]
    (last.parent / f"{int(last.name) + last.stat().st_size:020}").touch()
    (store / "config" / "consumerOffset.json").write_bytes(b"")


def set_clock_back(store: Path) -> None:
    """Let the clock have been a day ahead for the older half of the log."""
    records = plain_store.records(store)
    for record in records[: len(records) // 2]:
        at = record.position + record.places()["store_timestamp"][0]
        (then,) = struct.unpack(">q", inflict.read_at(record.path, at, 8))
        inflict.write_at(record.path, at, struct.pack(">q", then + DAY_SECONDS * 1000))


def negative_blank(store: Path) -> None:
    """Turn the size of a blank negative."""
    path, position, _ = plain_store.blanks(store)[0]
    inflict.flip_bits(path, position, 0x80)


def new_log(store: Path) -> None:
    """Start a broker without its log: an empty one is beside the old queues then."""
    (store / "commitlog").rename(store.parent / "mounted-later")
    (store / "commitlog").mkdir()
    (store / "commitlog" / ("0" * 20)).write_bytes(bytes(SECOND))


def mount(store: Path) -> None:
    """Bring the log back."""
    shutil.rmtree(store / "commitlog")
    (store.parent / "mounted-later").rename(store / "commitlog")


def set_back(store: Path) -> None:
    """Let a broker with timers have stopped a fortnight ago."""
    back = 14 * DAY_SECONDS
    wheel = bytearray((store / "timerwheel").read_bytes())
    for at in range(0, len(wheel), 32):
        (due,) = struct.unpack_from(">q", wheel, at)
        struct.pack_into(">q", wheel, at, due - back if due else 0)
    (store / "timerwheel").write_bytes(wheel)
    for file in (store / "timerlog").iterdir():
        raw = bytearray(file.read_bytes())
        for at in range(0, len(raw) - 51, 52):
            size, read = (struct.unpack_from(kind, raw, at + add)[0] for kind, add in PARTS)
            struct.pack_into(">q", raw, at + 16, read - back * 1000 if size else read)
        file.write_bytes(raw)
    inflict.edit_integer("config/timercheck", 0, 8, lambda old: old - back * 1000)(store)


PARTS: Final = ((">i", 0), (">q", 16))  # of a record of the timer log: its size, when it was read


def numbered_low(store: Path) -> None:
    """From the second file on let the records of a queue have numbers that are nine too low."""
    for record in plain_store.records(store):
        queue = record.topic, record.integer("queue_id")
        if queue == ("traffic-orders", 1) and record.path != plain_store.segments(store)[0]:
            at = record.position + record.places()["queue_offset"][0]
            number = record.integer("queue_offset") - 9
            inflict.write_at(record.path, at, struct.pack(">q", number))


def written_over(store: Path) -> None:
    """Write a stretch of the first file over the third."""
    log = plain_store.segments(store)
    inflict.write_at(log[2], 40960, log[0].read_bytes()[20480:36864])


def move_out(name: str) -> Deed:
    """Move a file of the log out of the store."""
    return lambda store: (store / "commitlog" / name).rename(store.parent / name)


def copy_log(source: int, target: str) -> Deed:
    """Copy a file of the log within its directory."""
    return lambda store: shutil.copy(
        store / "commitlog" / f"{source:020}", store / "commitlog" / target
    )


def empty_epochs(store: Path) -> None:
    """Leave both epoch files empty."""
    for name in ("epochFileCheckpoint", "epochFileCheckpoint.bak"):
        (store / name).touch()


def raise_offsets(store: Path) -> None:
    """Let groups have consumed more than there is."""
    path = store / "config" / "consumerOffset.json"
    path.write_text(re.sub(r"\b(\d+):\d+", r"\1:1000000", path.read_text()))


def move_log(store: Path) -> None:
    """Move the log where broker.conf says that it is."""
    (store / "moved").rename(store / "rocketmq")


def number_entry(store: Path) -> None:
    """Write zeros over entries of a DLedger log."""
    inflict.write_at(plain_store.numbered(store / "dledger-n0" / "data")[0], 20000, bytes(512))


def pack(store: Path) -> None:
    """Have nothing but an archive of the store, with a damaged log."""
    inflict.zero_sector(where=0.5)(store)
    as_tar(store, store.parent / "store.tar")
    shutil.rmtree(store)


CASE_ROWS: Final = (
    Ailment(
        "10017-old-data-past-the-end", "CL-PHYOFF commitlog/", "7 messages out of reach", (REPAIR,)
    ),
    Ailment("10108-empty-queue-file", "the last file is empty", "refuses to start", (REPAIR,)),
    Ailment(
        "10417-all-files-of-a-queue-gone",
        "CQ-GAP consumequeue/traffic-orders/2",
        "280 messages out of reach",
        (REPAIR,),
    ),
    Ailment(
        "10668-timers-past-the-log",
        "15 units point past the end of the commitlog",
        "consumers stop there",
        (REPAIR,),
        end="this timer is skipped when it is due",
    ),
    Ailment(
        "1231-log-at-another-path",
        "there is no commitlog; 29 queues",
        "deletes every consume queue",
        by_hand=move_log,
        advice="mount or restore the commitlog directory",
    ),
    Ailment(
        "1609-space-after-a-length",
        "mappedFileSizeCommitLog is not given",
        "refuses to start",
        (LENGTH,),
    ),
    Ailment(
        "2140-segment-missing", "FS-GAP commitlog/", "reads from the missing range fail", (BRIDGE,)
    ),
    Ailment("2784-log-begins-past-the-queues", "nothing is damaged", "nothing is lost"),
    Ailment(
        "3257-foreign-file", "FS-NAME commitlog/the-bad-empty-file", "refuses to start", (REPAIR,)
    ),
    Ailment(
        "3401-offsets-unreadable", "CF-JSON config/consumerOffset.json", LOSES_NOTHING, (REPAIR,)
    ),
    Ailment("3868-index-deleted-after-abort", "nothing is damaged", "nothing is lost"),
    Ailment("405-queues-lag", "nothing is damaged", "nothing is lost"),
    Ailment(
        "4463-index-not-flushed",
        "IX-KEY index/",
        "a query by key answers with a foreign message",
        (REPAIR,),
    ),
    Ailment("467-tail-not-dispatched", "1 message lost already", "loses nothing", (REPAIR,)),
    Ailment(
        "6096-delay-offsets-torn",
        "config/delayOffset.json: it cannot be parsed",
        "refuses to start",
        (RESET,),
    ),
    Ailment("6703-tail-not-flushed", "nothing is damaged", "nothing is lost"),
    Ailment(
        "678-checkpoint-ahead",
        "CP-AHEAD checkpoint",
        "recovery after a crash starts too late",
        (REPAIR,),
    ),
    Ailment("6904-empty-newest-file", "the last file is empty", LOSES_NOTHING, (REPAIR,)),
    Ailment("7233-checkpoint-never-written", "nothing is damaged", "nothing is lost"),
    Ailment("7355-newest-queue-file-lost", "nothing is damaged", "nothing is lost"),
    Ailment(
        "7539-index-file-without-bytes",
        "IX-LEN index/",
        "lookups find garbage or nothing",
        (REPAIR,),
    ),
    Ailment("7729-power-cut-all-json", "CF-JSON config/", LOSES_NOTHING, (REPAIR,)),
    Ailment("8007-index-newer-than-checkpoint", "nothing is damaged", "nothing is lost"),
    Ailment(
        "8041-index-of-another-log",
        "CQ-RANGE consumequeue/",
        "consumers stop there",
        (REPAIR, CLAMP),
    ),
    Ailment(
        "8394-hole-in-the-newest-segment",
        "CL-SIZE commitlog/",
        "220 messages cut off the log",
        (REPAIR,),
    ),
    Ailment(
        "9328-old-text-past-the-new", "CF-JSON config/consumerOffset.json", LOSES_NOTHING, (REPAIR,)
    ),
    Ailment("9705-both-copies-torn", "CF-JSON config/topics.json", "refuses to start", (REPAIR,)),
    Ailment(
        "9728-last-queue-file-without-units",
        "CQ-GAP consumequeue/",
        "29 messages out of reach",
        (REPAIR,),
    ),
    Ailment(
        "9735-wheel-lost", "TW-LOST timerwheel", "11 timer messages never delivered", (REPAIR,)
    ),
    Ailment(
        "9826-topics-and-queues-gone",
        "CQ-GAP consumequeue/",
        "1,120 messages out of reach of consumers, 146 messages without a route",
        (REPAIR, RESET),
    ),
)
ROWS: Final = (
    Ailment(
        "files that expire",
        "2 of 3 commitlog files last changed more than fileReservedTime=72 hours ago",
        "deletes them each day at 04:00",
        ("sed -i -e '$a fileReservedTime=217' broker.conf",),
        OLD,
        age,
        "fileReservedTime=72\ndeleteWhen=04",
    ),
    Ailment(
        "files that expire, and no broker.conf",
        "2 of 3 commitlog files last changed",
        "deletes them each day at 04:00",
        ("touch -c store/commitlog/*",),
        OLD,
        age,
    ),
    Ailment(
        "timers of a fortnight ago",
        "nothing is damaged",
        "2 timer messages never delivered",
        ("rmqtool extract store --pending --output waiting.jsonl",),
        "rocketmq-5.3.3-timer",
        set_back,
        "",
        end="this keeps what waits",
    ),
    Ailment(
        "fewer delay levels",
        "messageDelayLevel has fewer levels",
        "4 delayed messages of level 17, 18 are never delivered",
        (f"sed -i -e '$a messageDelayLevel={LEVELS}' broker.conf",),
        TRAFFIC,
        nothing,
        "messageDelayLevel=1s 5s 10s 30s 1m",
    ),
    Ailment(
        "fewer queues to read",
        "no consumer may read there",
        "wait until they expire",
        (),
        OLD,
        read_queues(2),
        "",
        by_hand=read_queues(4),
        advice="raise readQueueNums to writeQueueNums",
    ),
    Ailment(
        "no config directory",
        "there is no configuration",
        "1,250 messages without a route to them",
        (RESET,),
        OLD,
        gone("config"),
        "",
        "4.9.3",
    ),
    Ailment(
        "no topics.json",
        "there is no topics.json and no copy of it",
        "1,250 messages without a route to them",
        (RESET,),
        OLD,
        gone("config/topics.json*"),
        "",
    ),
    Ailment(
        "no offsets",
        "CO-GONE config/consumerOffset.json",
        "17 delayed messages are delivered for the second time, 4 consumer groups start over",
        (RESET,),
        TRAFFIC,
        gone("config/*Offset.json*"),
        "",
    ),
    Ailment(
        "an emptied file of the log",
        "the file is empty; 94 queue units",
        "refuses to start",
        (REPAIR,),
        "rocketmq-5.3.3-crash",
        inflict.resize_file("commitlog/*131072", lambda _: 0),
        "",
    ),
    Ailment(
        "length changed in mid-life",
        "mappedFileSizeCommitLog=262144, and the files have 131072",
        "refuses to start",
        (LENGTH, REPAIR),
        OLD,
        inflict.resize_file("commitlog/*262144", lambda _: 262144),
        "mappedFileSizeCommitLog=262144",
    ),
    Ailment(
        "length gone from broker.conf",
        "mappedFileSizeCommitLog=1073741824, and the files have 131072",
        "refuses to start",
        (LENGTH,),
        "rocketmq-5.5.0-traffic",
        nothing,
        "mappedFileSizeCommitLog=1073741824",
    ),
    Ailment(
        "index of another log",
        "the file is the index of another log",
        "a query by key answers with a foreign message",
        (REPAIR,),
        TRAFFIC,
        of_another("rocketmq-5.5.0-traffic", "index"),
        "",
    ),
    Ailment(
        "file of another broker's log",
        "name another broker than those around it",
        "its own messages are lost to this broker",
        (BRIDGE,),
        TRAFFIC,
        of_another("rocketmq-5.5.0-traffic", f"commitlog/{SECOND:020}"),
        "",
        by_hand=move_out(f"{SECOND:020}"),
        advice="put back the broker's own file",
    ),
    Ailment(
        "log of another broker",
        "the queues belong to another log than the commitlog",
        "1,367 messages out of reach",
        (REPAIR, CLAMP),
        TRAFFIC,
        of_another("rocketmq-5.5.0-traffic", "commitlog"),
        "",
    ),
    Ailment(
        "queues of another log",
        "the queues belong to another log than the commitlog",
        "1,375 messages out of reach",
        (REPAIR,),
        TRAFFIC,
        of_another("rocketmq-5.5.0-traffic", "consumequeue"),
        "",
    ),
    Ailment(
        "configuration of another broker",
        "TC-AHEAD config/timercheck",
        "1,266 messages without a route to them",
        (REPAIR, RESET),
        TRAFFIC,
        of_another("rocketmq-5.5.0-timer", "config"),
        "",
    ),
    Ailment(
        "queues of another log in RocksDB",
        "RQ-RANGE consumequeue",
        "120 messages out of reach",
        (REPAIR,),
        "rocketmq-5.3.3-rocksdb",
        of_another("rocketmq-5.3.3-rocksdb-expired", "consumequeue"),
        "",
    ),
    Ailment(
        "empty last file, and no offsets",
        "config/consumerOffset.json: it cannot be parsed",
        "1 consumer group starts over",
        (RESET,),
        "rocketmq-5.5.0-crash",
        empty_last,
        "",
    ),
    Ailment(
        "numbers that are too low",
        "units are 9 behind the queue offsets",
        "new offsets collide",
        (),
        OLD,
        numbered_low,
        "",
        end="do not rebuild it",
    ),
    Ailment(
        "a blank with a negative size",
        "CL-BLANKLEN commitlog/",
        "94 messages cut off the log, 2 commitlog files deleted",
        (REPAIR,),
        "rocketmq-5.5.0-crash",
        negative_blank,
        "",
        "5.5.1",
    ),
    Ailment(
        "16 KiB of zeros",
        "53 queue units and 131 index entries point into it",
        LOSES_NOTHING,
        (REPAIR,),
        TRAFFIC,
        lambda store: inflict.write_at(plain_store.segments(store)[1], 40960, bytes(16384)),
        "",
    ),
    Ailment(
        "a stretch of another place",
        "CL-SIZE commitlog/",
        "251 messages cut off the log",
        (REPAIR,),
        OLD,
        written_over,
        "",
    ),
    Ailment(
        "a directory among the files",
        "FS-DIR commitlog/backup",
        "refuses to start",
        (REPAIR,),
        OLD,
        lambda store: (store / "commitlog" / "backup").mkdir(),
        "",
    ),
    Ailment(
        "a new log beside old queues",
        "the commitlog has no message, and 29 queues with units past its end",
        "empties these queues",
        (),
        TRAFFIC,
        new_log,
        "",
        by_hand=mount,
        advice="mount or restore the commitlog directory",
    ),
    Ailment(
        "no CURRENT",
        "RD-OPEN consumequeue/CURRENT",
        "refuses to start",
        (REPAIR,),
        "rocketmq-5.5.0-rocksdb",
        gone("consumequeue/CURRENT"),
        "",
    ),
    Ailment(
        "both epoch files empty",
        "the epoch file's count",
        "starts without epochs and copies the log from the master again",
        (),
        TRAFFIC,
        empty_epochs,
        "",
        by_hand=gone("epochFile*"),
        advice="move both away",
    ),
    Ailment(
        "a sector of zeros",
        "CL-MAGIC commitlog/",
        LOSES_NOTHING,
        (REPAIR,),
        TRAFFIC,
        inflict.zero_sector(where=0.5),
        "",
    ),
    Ailment(
        "a clock that was set back",
        "nothing is damaged",
        "nothing is lost by starting",
        fixture=TRAFFIC,
        inflict=set_clock_back,
        conf="",
    ),
    Ailment(
        "no index",
        "indexMsgTimestamp speaks of a key index, and there is not one",
        LOSES_NOTHING,
        (REPAIR,),
        TRAFFIC,
        gone("index"),
        "",
    ),
    Ailment(
        "no queues",
        "CQ-GAP consumequeue/",
        "no consumer gets them",
        (REPAIR,),
        TRAFFIC,
        gone("consumequeue"),
        "",
    ),
    Ailment(
        "a copy beside a file of the log",
        "FS-NAME commitlog/",
        "refuses to start",
        (REPAIR,),
        TRAFFIC,
        copy_log(SECOND, "old-copy"),
        "",
    ),
    Ailment(
        "a copy over a file of the log",
        "physicalOffset is not where it lies",
        "368 messages out of reach",
        (BRIDGE,),
        TRAFFIC,
        copy_log(SECOND, f"{2 * SECOND:020}"),
        "",
        by_hand=move_out(f"{2 * SECOND:020}"),
        advice="it is a copy of commitlog/",
    ),
    Ailment(
        "offsets past the end",
        "the offset lies ahead of the queue's end",
        "messages are consumed again or skipped",
        (CLAMP,),
        OLD,
        raise_offsets,
        "",
    ),
    Ailment(
        "a node of a group, damaged",
        "DL-ENTRY dledger-n0/data",
        "its group has copies",
        (),
        "rocketmq-5.3.3-dledger",
        number_entry,
        "",
        end="copy the leader's",
    ),
    Ailment(
        "an archive",
        "CL-MAGIC commitlog/",
        "",
        ("rmqtool repair 'store.tar!store' --output DIR",),
        OLD,
        pack,
        asked="store.tar",
    ),
)


def of_case(row: Ailment) -> Ailment:
    """Fill a row with what its case says."""
    case = tomllib.loads((CASES / row.name / "case.toml").read_text(encoding="utf-8"))

    def inflict_all(store: Path) -> None:
        for step in case["state"]:
            inflict_step(store, step)

    return replace(
        row,
        fixture=case["fixture"],
        conf=case.get("conf"),
        release=case.get("release"),
        inflict=inflict_all,
    )


ALL: Final = (*map(of_case, CASE_ROWS), *ROWS)
