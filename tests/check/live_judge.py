"""What a command may say of a store that a broker writes to, and what is wrong."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyarrow import parquet

from tests.broker.broker import SMALL_GEOMETRY
from tests.check.live_load import PASSING
from tests.cli.run import Run

if TYPE_CHECKING:
    from tests.broker.message import Sent

# ruff: noqa: T201 - a campaign prints
# Of the flipped byte they may tell; what else they say is wrong then, too.
MAY_TELL: Final = (
    *("info", "dump", "report", "export", "extract", "doctor", "startup", "rebuild-log"),
    *("repair", "sql", "hash"),
)
DIAGNOSIS: Final = (
    *("verdict", "starts", "start", "denied", "is_read_only", "free"),
    *("messages_missing", "lock_held", "stopped"),
)
OF_FLIPPED: Final = {"CL-CRC", "CL-PROPCRC"}
SHOWN: Final = 20  # rows of what it wrote
NOT_FLUSHED: Final = "not flushed"


class Done(NamedTuple):
    """A command that has run.

    Attributes:
        name: of the command, as the campaign calls it.
        run: how it ended.
        sent: a message that was acknowledged before it began.
        before: it and others that were acknowledged before.
        new: where it wrote to.
    """

    name: str
    run: Run
    sent: Sent
    before: Sequence[Sent]
    new: Path

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Standard output as rows."""
        return [json.loads(line) for line in self.run.lines]

    @property
    def last_words(self) -> str:
        """The end of what it said."""
        return " / ".join(self.run.err.strip().splitlines())[-1500:]


class Judge:
    """Judges what commands say.

    Attributes:
        flipped: the file with the flipped byte, while there is one.
        has_flipped: whether there was one; what keeps watch may tell of it later.
        looked: how often `validate` ran on it.
        found: how often it found the byte.
        wrong: what was wrong, and how often.
    """

    def __init__(self, store: Path) -> None:
        self.flipped: Path | None = None
        self.has_flipped = False
        self.looked = self.found = 0
        self.wrong: Counter[str] = Counter()
        self._store, self._lock = store, threading.Lock()
        self._special: dict[str, Callable[[Done], Iterator[str]]] = {
            "validate": self._findings,
            "validate deep": self._findings,
            "validate quick": self._quick,
            "diff": _difference,
            "dump": self._listed,
            "export": self._listed,
            "extract": self._listed,
            "sql": self._listed,
            "query time": _times,
            "query group": _group,
            "info": _info,
            "doctor": self._doctor,
            "rebuild": self._rebuilt,
            "rebuild-cq": self._rebuilt,
            "repair": self._planned,
        }

    def judge(self, done: Done) -> None:
        """Note what is wrong."""
        if "Traceback" in done.run.err or done.run.code not in {0, 1}:
            self.note(f"{done.name}: exit {done.run.code}: {done.last_words}")
            return
        for what in self._special.get(done.name, self._plain)(done):
            if not self._has_expired(done.sent):  # a command may begin when its message is gone
                self.note(f"{done.name}: {what}")

    def note(self, what: str) -> None:
        """Count what is wrong."""
        with self._lock:
            self.wrong[what] += 1
        print(f"  wrong: {what}", flush=True)

    def _has_expired(self, sent: Sent) -> bool:
        """Tell whether the broker has deleted a message."""
        return sent.physical_offset < self._begin()

    def _begin(self) -> int:
        """Give the physical offset that the log begins at."""
        return int(min(path.name for path in (self._store / "commitlog").iterdir()))

    def _plain(self, done: Done) -> Iterator[str]:
        """The exit code is 0, and a query finds something."""
        if done.run.code and not self._may_differ(done):
            rows = [line for line in done.run.lines if "deleted-topic" not in line]
            yield f"exit {done.run.code}: {done.last_words} {rows[:SHOWN]}"
        elif done.name.startswith("query") and not done.run.out:
            yield f"nothing found: {done.last_words}"

    def _doctor(self, done: Done) -> Iterator[str]:
        """Nothing ails the store: what it says else is told."""
        if done.run.code and not self._may_differ(done):
            said = json.loads(done.run.out)
            (diagnosis,) = said["diagnosis"]
            facts = {name: diagnosis[name] for name in DIAGNOSIS}
            above = [one["message"] for one in said["findings"] if one["severity"] != "note"]
            yield f"exit {done.run.code}: {facts} {above}"

    def _rebuilt(self, done: Done) -> Iterator[str]:
        """Nothing differs but queues of topics that were deleted: the log has their records."""
        others = [row["path"] for row in done.rows if f"/{PASSING}-" not in row["path"]]
        if others or (done.run.code and not done.rows):
            yield f"exit {done.run.code}: {others[:3]} {done.last_words}"

    def _planned(self, done: Done) -> Iterator[str]:
        """Nothing is to be repaired, but for the record with the flipped byte, and its units."""
        plan = json.loads(done.run.out)
        rows = [row for section in ("edits", "left") for row in plan.get(section, ())]
        if rows if self.flipped is None else any(row["code"] not in OF_FLIPPED for row in rows):
            yield f"exit {done.run.code}: {rows[:5]} {done.last_words}"

    def _may_differ(self, done: Done) -> bool:
        """Tell whether a command may say that something is wrong.

        Queues in RocksDB lag behind the log until they are flushed. A broker that is killed before
        the first flush starts without what lies before the files that it recovers.
        """
        if (self._store / "consumequeue" / "CURRENT").exists():
            if done.name == "startup":
                return True
            if done.name == "dump queues" and NOT_FLUSHED in done.run.err:
                return True
        return self.flipped is not None and done.name.startswith(MAY_TELL)

    def _findings(self, done: Done) -> Iterator[str]:
        """No finding but a note, and that of the flipped byte."""
        flipped = self.flipped
        if flipped is not None and not flipped.exists():
            return  # it expired meanwhile, and may have been there when the command began
        path = f"commitlog/{flipped.name}" if flipped else None
        above = [row for row in done.rows if row["severity"] != "note"]
        for row in above:
            if row["path"] != path:
                yield f"{row['code']} {row['path']}: {row['message']}"
        if path is not None:
            is_found = any(row["path"] == path for row in above)
            with self._lock:
                self.looked += 1
                self.found += is_found
            if not is_found:
                yield f"the flipped byte of {path} was not found"
        if done.run.code != int(path is not None):
            yield f"exit {done.run.code}: {done.last_words}"

    @staticmethod
    def _quick(done: Done) -> Iterator[str]:
        """No finding but notes: it does not read records."""
        for row in done.rows:
            if row["severity"] != "note":
                yield f"{row['code']} {row['path']}: {row['message']}"
        if done.run.code:
            yield f"exit {done.run.code}: {done.last_words}"

    def _listed(self, done: Done) -> Iterator[str]:
        """All messages that have not expired are among those that are listed."""
        if self._is_wrong(done):
            yield f"exit {done.run.code}: {done.last_words}"
            return
        if done.name in {"dump", "sql"}:
            keys = {row["unique_key"] for row in done.rows}
            if done.name == "sql":
                yield from self._told(done)
        elif done.name == "export":
            files = done.new.rglob("*.parquet")
            columns = [parquet.read_table(file, columns=["unique_key"])[0] for file in files]
            keys = {key for column in columns for key in column.to_pylist()}
        else:
            lines = Path(f"{done.new}.jsonl").read_bytes().splitlines()
            keys = {json.loads(line).get("unique_key") for line in lines}
        begin = self._begin()
        missing = [
            one.physical_offset
            for one in done.before
            if one.physical_offset >= begin and one.unique_key not in keys
        ]
        if missing:
            yield f"{len(missing)} messages are not listed, {missing[:3]}: {done.last_words}"

    def _told(self, done: Done) -> Iterator[str]:
        """No row tells of damage but in the file with the flipped byte."""
        flipped = self.flipped and f"commitlog/{self.flipped.name}"
        for row in done.rows:
            if row["code"] is not None and row["segment"] != flipped:
                yield f"{row}"

    def _is_wrong(self, done: Done) -> bool:
        return bool(done.run.code) and not self._may_differ(done)


def _difference(done: Done) -> Iterator[str]:
    """A store is its own log up to where it was read first; all that follows is new.

    It may be the blank that closes a file: the broker writes it before the record that follows.
    """
    (said,) = json.loads(done.run.out)["verdict"]
    is_closed = not said["end_b"] % int(str(SMALL_GEOMETRY["mappedFileSizeCommitLog"]))
    is_new = said["end_a"] == said["end_b"] or said["messages_only_b"] or is_closed
    parts_at = said["first_difference"] in {None, said["common_end"]}
    if not (said["is_complete"] and is_new and parts_at):
        yield done.last_words


def _times(done: Done) -> Iterator[str]:
    """Each queue is known up to a message that was acknowledged before."""
    ends = {row["queue_id"]: row["max_offset"] for row in done.rows}
    yield from _reaches(done, ends.get(done.sent.queue_id))


def _group(done: Done) -> Iterator[str]:
    """Each queue is known as far, and no group has consumed more than there is."""
    for row in done.rows:
        if row["state"] in {"ahead", "no queue"}:
            yield f"queue {row['queue_id']}: {row['state']}"
    ends = {row["queue_id"]: row["max_offset"] for row in done.rows}
    yield from _reaches(done, ends.get(done.sent.queue_id))


def _reaches(done: Done, end: int | None) -> Iterator[str]:
    if done.run.code or end is None:
        yield f"exit {done.run.code}, end {end}: {done.last_words}"
    elif end <= done.sent.queue_offset:
        yield f"ends at {end}, before the acknowledged {done.sent.queue_offset}"


def _info(done: Done) -> Iterator[str]:
    """Nothing is a problem."""
    if done.run.code:
        yield f"exit {done.run.code}: {done.last_words}"
    for row in done.rows:
        if row["section"] == "problems":
            yield f"{row}"[:300]
