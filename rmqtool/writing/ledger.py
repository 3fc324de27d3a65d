r"""A ledger of what was sent elsewhere: a file that only grows, beside what is sent.

    {"ledger": 2, "rmqtool": …, "time": …, "file": …, "bytes": …, "sha256": …, …}
    {"sending": [1, 1000], "boot": …}    on the disk before the first of them is sent
    {"on_way": [1, 2, 5]}                before these are sent
    {"number": 1, "id": …, "broker": …, "queue_id": …, "queue_offset": …}
    {"number": 2, "refused": 13, "reason": …}
    {"unsure": [5], "reason": …}         they were on their way when the connection ended
    {"ended": …, "reason": …}            in order: nothing else was on its way

Each line is written when its answer comes: a killed process loses none, and what it had on its way
is named. Those of a stretch are on the disk before the next stretch begins: of a machine that loses
its power, one stretch is open at most. `boot` tells the two apart. A line that a kill cut off does
not count. Ledgers of rmqtool 1.0.0 are read, too: they do not name what is on its way.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Self

from rmqtool import __version__
from rmqtool.errors import OutputExists, PlanMismatch, Trouble
from rmqtool.writing.directory import spot_of
from rmqtool.writing.journal import now
from rmqtool.writing.staging import write_all, write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FORMAT: Final = 2
_FIRST_FORMAT: Final = 1
_LONGEST_LINE: Final = 1 << 16
_BOOT: Final = "/proc/sys/kernel/random/boot_id"


class _Stretch(NamedTuple):
    first: int
    last: int
    boot: str  # of the machine; empty where nobody knows it


_NOTHING: Final = _Stretch(0, -1, "")
_STEP: Final = "--ledger FILE: another ledger, which does not know the messages sent before"


class SentLedger:
    """A ledger, open and locked; a context manager.

    Args:
        path: of the file; it is made if nothing is there.
        facts: what it is about; an old ledger must be about the same, `file` aside.
        count: of what may be sent; numbers go from 1 to it.

    Attributes:
        sent: a byte for each number, 1 when it was sent by an earlier run.
    """

    def __init__(self, path: str, facts: Mapping[str, object], count: int) -> None:
        self._path, self._facts = path, dict(facts)
        self.sent = bytearray(count + 1)
        self._unsure: set[int] = set()
        self._on_way: set[int] = set()
        self._refused: set[int] = set()  # of the open stretch
        self._stretch = _NOTHING
        self._boot = _boot()
        self._names_on_way = True
        self._end = 0
        self._keep = ExitStack()

    def __enter__(self) -> Self:
        """Open it and read what it says.

        Raises:
            OutputExists: another process writes to it.
            PlanMismatch: it is not a ledger, or is about something else.
            WriteFailed: the system refused.
        """
        with ExitStack() as keep:
            with write_errors(self._path):
                spot = spot_of(self._path)
                keep.callback(spot.directory.close)
                is_new = spot.facts() is None
                if is_new:
                    os.close(spot.directory.create(spot.name))
                self._handle = spot.directory.open_file(spot.name, os.O_RDWR)
                keep.callback(os.close, self._handle)
                self._lock()
            self._read()
            with write_errors(self._path):
                os.ftruncate(self._handle, self._end)
                if not self._end:
                    head = {"ledger": FORMAT, "rmqtool": __version__, "time": now()}
                    self.append(head | self._facts)
                    self.sync()
                    os.fsync(spot.directory.handle)
            self._keep = keep.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._keep.close()

    def begin(self, first: int, last: int) -> None:
        """Say which numbers are sent next; the line is on the disk when this returns.

        Raises:
            WriteFailed: the system refused.
        """
        self.append({"sending": [first, last], "boot": self._boot})
        self.sync()

    def append(self, line: Mapping[str, object]) -> None:
        """Write a line. Raises WriteFailed: the system refused."""
        raw = json.dumps(line, ensure_ascii=True).encode() + b"\n"
        with write_errors(self._path):
            write_all(self._handle, raw, self._end)
        self._end += len(raw)

    def end(self, unsure: Sequence[int], reason: str) -> None:
        """Say that a run ends in order: nothing is on its way but for what is named.

        Args:
            unsure: numbers of what may have been sent.
            reason: why the run ends; empty when all was sent.

        Raises:
            WriteFailed: the system refused.
        """
        with write_errors(self._path):
            os.ftruncate(self._handle, self._end)  # an interrupted line
        if unsure:
            self.append({"unsure": unsure, "reason": reason})
        self.append({"ended": now(), "reason": reason})
        self.sync()

    def may_have_sent(self, number: int) -> bool:
        """Tell whether an earlier run may have sent a message whose answer the ledger lacks."""
        first, last, _ = self._stretch
        return (first <= number <= last and number not in self._refused) or number in self._unsure

    def sync(self) -> None:
        """Bring all lines to the disk. Raises WriteFailed: the system refused."""
        with write_errors(self._path):
            os.fsync(self._handle)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputExists(
                path=self._path,
                reason="another process sends with this ledger; wait until it has ended",
                trouble=Trouble.EXPLAINED,
            ) from error

    def _read(self) -> None:
        """Take in what is there; the place past the last whole line is where lines are added."""
        for number, line in enumerate(self._lines()):
            try:
                if number == 0:
                    self._compare(line)
                else:
                    self._take(line)
            except (TypeError, ValueError, KeyError):
                self._refuse("is not a ledger")
        if self._stretch.boot and self._stretch.boot == self._boot:  # the process was killed
            self._stretch = _NOTHING
        self._unsure |= self._on_way

    def _take(self, line: Mapping[str, Any]) -> None:
        if "sending" in line:
            first, last = line["sending"]
            boot = str(line["boot"]) if self._names_on_way else ""
            self._stretch = _Stretch(self._checked(first), self._checked(last), boot)
            self._refused.clear()
            self._on_way.clear()
        elif "on_way" in line:
            self._on_way.update(map(self._checked, line["on_way"]))
        elif "unsure" in line:
            unsure = line["unsure"]
            self._unsure.update(
                map(self._checked, unsure if isinstance(unsure, list) else [unsure])
            )
        elif "ended" in line:
            self._stretch = _NOTHING
            self._on_way.clear()
        else:
            number = self._checked(line["number"])
            self._on_way.discard(number)
            if "refused" in line:
                self._refused.add(number)
            else:
                self.sent[number] = 1

    def _lines(self) -> Iterator[dict[str, Any]]:
        with open(self._handle, "rb", closefd=False) as file:
            while (raw := file.readline(_LONGEST_LINE)).endswith(b"\n"):
                try:
                    line = json.loads(raw)
                except (ValueError, RecursionError):
                    line = None
                if not isinstance(line, dict):
                    self._refuse("is not a ledger")
                yield line
                self._end += len(raw)
            if len(raw) == _LONGEST_LINE:
                self._refuse("is not a ledger")

    def _compare(self, head: Mapping[str, Any]) -> None:
        if head.get("ledger") not in {_FIRST_FORMAT, FORMAT}:
            self._refuse("is not a ledger of this version of rmqtool")
        self._names_on_way = head["ledger"] == FORMAT
        for name, value in self._facts.items():
            if name != "file" and head.get(name) != value:
                self._refuse(f"is about another sending: {name} was {head.get(name)!r}")

    def _checked(self, number: object) -> int:
        if not isinstance(number, int) or not 0 < number < len(self.sent):
            raise ValueError(number)
        return number

    def _refuse(self, reason: str) -> NoReturn:
        raise PlanMismatch(path=self._path, reason=f"{reason}; {_STEP}", trouble=Trouble.EXPLAINED)


def _boot() -> str:
    try:
        with open(_BOOT, encoding="ascii") as file:  # noqa: PTH123 - a str
            return file.read(64).strip()
    except OSError:
        return ""
