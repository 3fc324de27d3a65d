"""Build a large store quickly: for benchmarks, never for judging what is right.

Records are what an ordinary producer sends: real CRCs, a unique key of 32 hex digits, keys, tags
and the properties that clients and brokers add. Queues, index and checkpoint are those of a broker
with default settings, so that a real one starts on the store. The same spec gives the same bytes.

    python -m tests.bench.store_builder /path/to/new/store --gib 2
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from isal.isal_zlib import crc32

from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue import DEFAULT_FILE_LENGTH as QUEUE_FILE_LENGTH
from rmqtool.formats.index import (
    DEFAULT_HASH_SLOT_NUM,
    DEFAULT_INDEX_NUM,
    INDEX_ENTRY,
    INDEX_HEADER,
    file_length,
    slot_position,
)
from rmqtool.formats.message import (
    BLANK,
    BLANK_MAGIC_CODE,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MIDDLES,
    MESSAGE_PREFIX,
)

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

GIB: Final = 1 << 30
FIRST_TIME: Final = 1_700_000_000_000  # ms: 14 November 2023
MESSAGES_A_MS: Final = 50
CHUNK: Final = 1 << 17  # records made at a time
MIDDLE: Final = MESSAGE_MIDDLES[False, False]
HEADER: Final = np.dtype(MESSAGE_PREFIX.dtype.descr + MIDDLE.dtype.descr)
CHECKPOINT_LENGTH: Final = 4096


@dataclass(frozen=True, slots=True)
class Spec:
    """What a store is to hold.

    Attributes:
        total_bytes: commitlog, rounded up to whole segments.
        record_bytes: size of each record.
        topics: how many.
        queues: of each topic.
        segment_bytes: mappedFileSizeCommitLog.
        slots: maxHashSlotNum.
        entries: maxIndexNum; all keys must fit one file.
        seed: of the bodies.
        queue_file_bytes: mappedFileSizeConsumeQueue.
        skew: of ten records in a row, how many are of the first topic; 0 is topics in turn.
        span_ms: from the first record to the last; 0 is 50 records a millisecond.
    """

    total_bytes: int = 2 * GIB
    record_bytes: int = 470
    topics: int = 10
    queues: int = 16
    segment_bytes: int = GIB
    slots: int = DEFAULT_HASH_SLOT_NUM
    entries: int = DEFAULT_INDEX_NUM
    seed: int = 1
    queue_file_bytes: int = QUEUE_FILE_LENGTH
    span_ms: int = 0
    skew: int = 0

    @property
    def in_segment(self) -> int:
        """Records in one segment; 8 bytes stay for the blank."""
        return (self.segment_bytes - BLANK.size) // self.record_bytes

    @property
    def segments(self) -> int:
        """Files of the commitlog."""
        return -(-self.total_bytes // self.segment_bytes)

    @property
    def records(self) -> int:
        """Messages: the last segment keeps an unused tail of one message's size."""
        return self.in_segment * self.segments - 1


def properties_template() -> bytes:
    """Give the properties of a record, with zeros where its own keys and tag go."""
    return (
        b"TRACE_ON\x01true\x02MSG_REGION\x01DefaultRegion\x02UNIQ_KEY\x01" + bytes(32) + b"\x02"
        b"CLUSTER\x01DefaultCluster\x02TAGS\x01Tag0\x02KEYS\x01order-" + bytes(9) + b"\x02"
    )


class Builder:
    """Writes one store."""

    def __init__(self, root: Path, spec: Spec) -> None:
        self.root, self.spec = root, spec
        self.random = np.random.default_rng(spec.seed)
        self.properties = properties_template()
        self.body_length = spec.record_bytes - 91 - len(self.topic(0)) - len(self.properties)
        self.hashes = np.empty(2 * spec.records, np.int32)

    def topic(self, number: int) -> bytes:
        """Give the name of a topic."""
        return b"BenchTopic%02d" % number

    def build(self) -> None:
        """Write commitlog, consume queues, index, checkpoint and topic configuration."""
        self.root.mkdir(parents=True)
        self.write_commitlog()
        self.write_queues()
        self.write_index()
        self.write_small_files()

    def write_commitlog(self) -> None:
        """Write all segments."""
        (self.root / "commitlog").mkdir()
        spec = self.spec
        for number in range(spec.segments):
            start = number * spec.segment_bytes
            first = number * spec.in_segment
            last = min(first + spec.in_segment, spec.records)
            with (self.root / "commitlog" / f"{start:020}").open("wb") as file:
                for begin in range(first, last, CHUNK):
                    file.write(self.records(np.arange(begin, min(begin + CHUNK, last))).data)
                left = spec.segment_bytes - file.tell()
                if last - first == spec.in_segment:
                    blank = {"total_size": left, "magic_code": BLANK_MAGIC_CODE}
                    file.write(BLANK.build(blank))
                file.truncate(spec.segment_bytes)

    def store_times(self, numbers: Numbers) -> Numbers:
        """Give the store timestamps of records."""
        span, records = self.spec.span_ms, self.spec.records
        passed = numbers * span // records if span else numbers // MESSAGES_A_MS
        times: Numbers = FIRST_TIME + passed
        return times

    def physical_offsets(self, numbers: Numbers) -> Numbers:
        """Give where records lie in the commitlog."""
        segment, place = np.divmod(numbers, self.spec.in_segment)
        offsets: Numbers = segment * self.spec.segment_bytes + place * self.spec.record_bytes
        return offsets

    def places(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Give the queue of each record, counted through all topics, and its queue offset."""
        spec = self.spec
        if not spec.skew:
            offsets, queues = np.divmod(numbers, spec.topics * spec.queues)
            return queues, offsets
        period, rest = np.divmod(numbers, 10 * spec.queues)  # that many records, of two topics
        row, queue_id = np.divmod(rest, spec.queues)
        turn, other = np.divmod(period, spec.topics - 1)
        is_first, others = row < spec.skew, 10 - spec.skew
        topics = np.where(is_first, 0, 1 + other)
        offsets = np.where(is_first, period * spec.skew + row, turn * others + row - spec.skew)
        return topics * spec.queues + queue_id, offsets

    def records(self, numbers: Numbers) -> Bytes:
        """Give records: uint8, shape (n, record_bytes); and keep the hashes of their keys."""
        spec, count = self.spec, numbers.size
        made = np.zeros((count, spec.record_bytes), np.uint8)
        queue, _ = self.places(numbers)
        body = made[:, HEADER.itemsize : HEADER.itemsize + self.body_length]
        body[:] = np.frombuffer(self.random.bytes(body.size), np.uint8).reshape(body.shape)
        body &= 0x7F
        self.write_headers(made[:, : HEADER.itemsize], numbers, body)
        at = HEADER.itemsize + self.body_length
        names = np.array([list(self.topic(number)) for number in range(spec.topics)], np.uint8)
        made[:, at] = names.shape[1]
        topics = made[:, at + 1 : at + 1 + names.shape[1]]
        topics[:] = names[queue // spec.queues]
        at += 1 + names.shape[1]
        made[:, at : at + 2] = list(len(self.properties).to_bytes(2, "big"))
        properties = made[:, at + 2 :]
        properties[:] = np.frombuffer(self.properties, np.uint8)
        self.write_keys(properties, topics, numbers)
        return made

    def write_headers(self, room: Bytes, numbers: Numbers, bodies: Bytes) -> None:
        """Fill in all that lies before the bodies."""
        spec, header = self.spec, np.zeros(numbers.size, HEADER)
        header["total_size"], header["magic_code"] = spec.record_bytes, MESSAGE_MAGIC_CODE
        header["body_crc"] = [crc32(body) & 0x7FFFFFFF for body in np.ascontiguousarray(bodies)]
        queues, header["queue_offset"] = self.places(numbers)
        header["queue_id"] = queues % spec.queues
        header["physical_offset"] = self.physical_offsets(numbers)
        header["store_timestamp"] = self.store_times(numbers)
        header["born_timestamp"] = header["store_timestamp"] - 1
        header["born_address"] = header["store_address"] = np.void(bytes([10, 0, 0, 1]))
        header["born_port"], header["store_port"] = 40000 + numbers % 64, 10911
        header["body_length"] = self.body_length
        room[:] = header.view(np.uint8).reshape(room.shape)

    def write_keys(self, properties: Bytes, topics: Bytes, numbers: Numbers) -> None:
        """Fill in unique key, tag and key, and keep the hashes under which both are indexed."""
        raw = np.zeros(numbers.size, [("head", "S8"), ("time", ">u4"), ("counter", ">u4")])
        raw["head"] = bytes([10, 0, 0, 1, 0x12, 0x34, 0x5A, 0x6B])
        raw["time"], raw["counter"] = self.store_times(numbers) % (1 << 31), numbers
        octets = raw.view(np.uint8).reshape(-1, 16)
        digits = np.frombuffer(b"0123456789ABCDEF", np.uint8)
        at = self.properties.index(b"UNIQ_KEY") + 9
        unique = properties[:, at : at + 32]
        unique[:, 0::2], unique[:, 1::2] = digits[octets >> 4], digits[octets & 15]
        at = self.properties.index(b"TAGS") + 8
        properties[:, at] = ord("A") + numbers % 5
        at = self.properties.index(b"KEYS") + 5
        key = properties[:, at : at + 15]
        for place in range(9):
            key[:, 14 - place] = ord("0") + numbers // 10**place % 10
        seed = java_hash(topics, 0) * np.uint32(31) + np.uint32(ord("#"))
        self.hashes[2 * numbers[0] : 2 * numbers[-1] + 2 : 2] = filed(java_hash(unique, seed))
        self.hashes[2 * numbers[0] + 1 : 2 * numbers[-1] + 2 : 2] = filed(java_hash(key, seed))

    def write_queues(self) -> None:
        """Write one file, or more, for each queue."""
        spec = self.spec
        tags = [int(java_hash(np.frombuffer(b"Tag%c" % (ord("A") + n), np.uint8)[None], 0)[0])
                for n in range(5)]  # fmt: skip
        queues, _ = self.places(np.arange(spec.records))
        by_queue = np.argsort(queues, kind="stable")  # in each queue, in the order of the log
        ends = np.cumsum(np.bincount(queues, minlength=spec.topics * spec.queues))
        for queue, numbers in enumerate(np.split(by_queue, ends[:-1])):
            units = np.zeros(numbers.size, CQ_UNIT.dtype)
            units["physical_offset"] = self.physical_offsets(numbers)
            units["size"] = spec.record_bytes
            units["tags_code"] = np.array(tags)[numbers % 5]
            topic, queue_id = divmod(queue, spec.queues)
            directory = self.root / "consumequeue" / self.topic(topic).decode() / str(queue_id)
            directory.mkdir(parents=True)
            raw = units.tobytes()
            length = spec.queue_file_bytes
            for start in range(0, len(raw), length):
                with (directory / f"{start:020}").open("wb") as file:
                    file.write(raw[start : start + length])
                    file.truncate(length)

    def write_index(self) -> None:
        """Write the one index file."""
        spec, count = self.spec, self.hashes.size
        if count >= spec.entries:
            message = f"{count} keys do not fit one index file"
            raise ValueError(message)
        slots = self.hashes % spec.slots
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        chained = np.r_[False, ordered[1:] == ordered[:-1]]
        previous = np.zeros(count, np.int64)
        previous[order[chained]] = order[np.flatnonzero(chained) - 1] + 1
        table = np.zeros(spec.slots, ">i4")
        ends = np.r_[~chained[1:], True]
        table[ordered[ends]] = order[ends] + 1
        numbers = np.repeat(np.arange(spec.records), 2)
        entries = np.zeros(count, INDEX_ENTRY.dtype)
        entries["key_hash"], entries["previous"] = self.hashes, previous
        entries["physical_offset"] = self.physical_offsets(numbers)
        times = self.store_times(numbers)
        entries["time_difference"] = (times - times[0]) // 1000
        header = {
            "begin_timestamp": int(times[0]),
            "end_timestamp": int(times[-1]),
            "begin_physical_offset": 0,
            "end_physical_offset": int(entries["physical_offset"][-1]),
            "hash_slot_count": int(ends.sum()),
            "index_count": count + 1,
        }
        (self.root / "index").mkdir()
        with (self.root / "index" / "20231114221320000").open("wb") as file:
            file.write(INDEX_HEADER.build(header))
            file.write(table.tobytes())
            file.seek(slot_position(spec.slots) + INDEX_ENTRY.size)
            file.write(entries.data)
            file.truncate(file_length(spec.slots, spec.entries))

    def write_small_files(self) -> None:
        """Write checkpoint, topic configuration, and offsets of no consumer."""
        values: dict[str, Any] = dict.fromkeys(CHECKPOINT.positions, 0)
        last = int(self.store_times(np.array([self.spec.records - 1]))[0])
        values |= {"physic_msg_timestamp": last, "logics_msg_timestamp": last}
        checkpoint = CHECKPOINT.build(values)
        (self.root / "checkpoint").write_bytes(checkpoint.ljust(CHECKPOINT_LENGTH, b"\0"))
        topics = ",".join(
            f'"{self.topic(number).decode()}":{{"order":false,"perm":6,"readQueueNums":'
            f'{self.spec.queues},"topicFilterType":"SINGLE_TAG","topicName":'
            f'"{self.topic(number).decode()}","topicSysFlag":0,"writeQueueNums":'
            f"{self.spec.queues}}}"
            for number in range(self.spec.topics)
        )
        (self.root / "config").mkdir()
        (self.root / "config" / "topics.json").write_text(
            f'{{"dataVersion":{{"counter":1,"stateVersion":0,"timestamp":{FIRST_TIME}}},'
            f'"topicConfigTable":{{{topics}}}}}'
        )
        (self.root / "config" / "consumerOffset.json").write_text('{"offsetTable":{}}')


def java_hash(text: Bytes, seed: int | npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Give Java's hash of each row of ASCII text, going on from a seed."""
    value = np.zeros(text.shape[0], np.uint32) + np.uint32(seed)
    for column in range(text.shape[1]):
        value = value * np.uint32(31) + text[:, column]
    return value


def filed(hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Give the absolute value that the index files."""
    return (
        np.abs(hashes.view(np.int32).astype(np.int64)).astype(np.uint32).view(np.int32) & 0x7FFFFFFF
    )


def bench_directory() -> Path:
    """Give the directory outside of the tree in which benchmarks keep their stores."""
    return Path(
        os.environ.get("RMQTOOL_BENCH_DIR") or Path(tempfile.gettempdir()) / "rmqtool-bench"
    )


def bench_store(spec: Spec | None = None) -> Path:
    """Give the store of a spec, which is built when it is not there."""
    wanted = spec or Spec()
    root = bench_directory() / ("whole-store-" + "-".join(map(str, astuple(wanted))))
    if not root.exists():
        # In a process of its own: the peak of each process started later includes that of this one.
        made = multiprocessing.get_context("spawn").Process(target=build, args=(root, wanted))
        made.start()
        made.join()
    assert root.exists(), f"{root}: not built"
    return root


def build(root: Path, spec: Spec) -> None:
    """Build the store of a spec at a place where nothing is."""
    growing = root.with_name(f"{root.name}.{os.getpid()}")
    Builder(growing, spec).build()
    growing.rename(root)  # killed half-way, it is not taken for finished


def main() -> None:
    """Build a store at a place given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, nargs="?", help="a new directory")
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--record-bytes", type=int, default=470)
    options = parser.parse_args()
    spec = Spec(total_bytes=int(options.gib * GIB), record_bytes=options.record_bytes)
    began = time.perf_counter()
    if options.path:
        Builder(options.path, spec).build()
    path = options.path or bench_store(spec)
    print(f"{path}: {spec.records} records in {time.perf_counter() - began:.1f} s")  # noqa: T201


if __name__ == "__main__":
    main()
