"""What can be asked, and how a pasted string or a line of a file is understood.

A line is either the options of the command line (`--key order-1 --topic T`), a JSON object with
the same names, or a bare string: an ID, a physical offset, `topic queue offset`, a time, else a
key. What it was taken for is said in the answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rmqtool.clock import Clock, is_time
from rmqtool.errors import UsageError
from rmqtool.formats.message_id import ClientMessageId, OffsetMessageId, UniqueKey, recognise
from rmqtool.plural import counted, meant
from rmqtool.ranges import Boundary
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rmqtool.broker.release import Version

MessageId: TypeAlias = OffsetMessageId | UniqueKey | ClientMessageId
ID_LENGTHS: Final = (32, 34, 56)
_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9]{1,19}")
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_PASTED_ID: Final = re.compile(
    r"""(?:[\[{("']*\w*(?:id|key)["']*\s*[=:]\s*)?[\[{("']*"""
    r"""(?P<id>[0-9a-f]{32}|[0-9a-f]{34}|[0-9a-f]{56})[\]})"',;.]*""",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(r"(\S+)\s+(\d{1,10})\s+(\d{1,19})")
_LARGEST: Final = 2**63 - 1
_LARGEST_QUEUE: Final = 2**31 - 1
TEXTS: Final = ("grep", "grep-regex")
WAYS: Final = ("id", "key", "at", "queue-offset", "time", "around", "transaction", *TEXTS)
NAMES: Final = (*WAYS, "topic", "queue")
TIMES: Final = ("time", "around")
KEPT: Final = 60  # characters of hostile input that an error repeats


class ById(NamedTuple):
    """An ID that somebody pasted: offset message ID or client unique key."""

    text: str

    def __str__(self) -> str:
        return f"--id {self.text}"

    @property
    def kind(self) -> MessageId | None:
        """What it most likely is; None when no client and no broker makes such IDs."""
        return recognise(self.text)


class ByKey(NamedTuple):
    """A key of the application; without topics all are tried."""

    key: str
    topics: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([f"--key {self.key}", *(f"--topic {topic}" for topic in self.topics)])


class ByOffset(NamedTuple):
    """A byte of the commitlog."""

    physical_offset: int

    def __str__(self) -> str:
        return f"--at {self.physical_offset}"


class ByQueueOffset(NamedTuple):
    """A place in a queue."""

    topic: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"--topic {self.topic} --queue {self.queue_id} --queue-offset {self.queue_offset}"


class ByTime(NamedTuple):
    """A store time: in the whole store, in a topic's queues, or in one queue."""

    timestamp: int  # ms since 1970
    topic: str | None = None  # None for the whole store
    queue_id: int | None = None  # None for all queues of the topic
    boundary: Boundary = Boundary.LOWER  # first at or after, or last at or before
    like_broker: Version | None = None  # release whose answer is wanted beside the true one
    # first time past those of the messages that are wanted; None asks for one place
    until: int | None = None

    def __str__(self) -> str:
        words = [f"--time {iso_time(self.timestamp)}"]
        if self.until is not None:
            words = [f"stored from {iso_time(self.timestamp)} to {iso_time(self.until - 1)}"]
        words += [f"--topic {self.topic}"] if self.topic is not None else []
        words += [f"--queue {self.queue_id}"] if self.queue_id is not None else []
        words += [f"--boundary {self.boundary}"] if self.boundary is not Boundary.LOWER else []
        return " ".join(words)


class ByTransaction(NamedTuple):
    """A transaction's ID: half message, operation and what came of it."""

    text: str

    def __str__(self) -> str:
        return f"--transaction {self.text}"


class ByText(NamedTuple):
    """A text in bodies or properties; without topics in all."""

    text: str  # or a regular expression
    is_regex: bool = False
    topics: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = "--grep-regex" if self.is_regex else "--grep"
        return " ".join([f"{name} {self.text}", *(f"--topic {topic}" for topic in self.topics)])


Request: TypeAlias = ById | ByKey | ByOffset | ByQueueOffset | ByTime | ByTransaction | ByText


def id_problem(text: str) -> str:
    """Say why a text is no ID that RocketMQ makes; empty when it may be one."""
    if len(text) not in ID_LENGTHS:
        return f"{counted(len(text), 'character')}, an ID has 32, 34 or 56 hex digits"
    if not _HEX.fullmatch(text):
        odd = next(character for character in text if not _HEX.match(character))
        return f"{odd!a} is not a hex digit"
    return ""


def number(option: str, text: str, largest: int = _LARGEST) -> int:
    """Read a decimal or `0x` number. Raises UsageError: it is not one, or does not fit."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        raise UsageError(
            option=option, reason=f"{text[:KEPT]!r} is not a number; 4096 and 0x1000 are"
        )
    value = int(text, 16 if text[:2].lower() == "0x" else 10)
    if value > largest:
        raise UsageError(option=option, reason=f"{text} is more than {largest}")
    return value


def request_of(
    asked: Mapping[str, str],
    *,
    topics: tuple[str, ...] = (),
    boundary: Boundary = Boundary.LOWER,
    like_broker: Version | None = None,
    clock: Clock | None = None,
) -> Request:
    """Make one request of named texts.

    Args:
        asked: names as on the command line, without dashes.
        topics: of a key, where there are several.
        boundary: of a time.
        like_broker: of a time.
        clock: reads times.

    Raises:
        UsageError: it says nothing that can be looked up, or two things at once.
    """
    topics = topics or ((asked["topic"],) if "topic" in asked else ())
    given = [name for name in WAYS if name in asked]
    if len(given) != 1:
        ways = " ".join(f"--{name}" for name in WAYS)
        options = " ".join(f"--{name}" for name in given)
        reason = f"one of {ways}" + (f", not {options}" if given else "")
        raise UsageError(option="query", reason=reason)
    (name,) = given
    _refuse_unused(asked, topics, name)
    text = asked[name]
    if name == "key":
        return ByKey(text, topics)
    if name == "queue-offset":
        return _place(asked, topics)
    if name in TIMES:
        return _time(asked, topics, boundary, like_broker, clock or Clock())
    if name == "at":
        return ByOffset(number("--at", text))
    if not text:
        raise UsageError(option=f"--{name}", reason="is empty")
    if name in TEXTS:
        return ByText(text, name == "grep-regex", topics)
    return ById(text) if name == "id" else ByTransaction(text)


def _refuse_unused(asked: Mapping[str, str], topics: tuple[str, ...], name: str) -> None:
    """Refuse options that say nothing about what was asked. Raises UsageError: there is one."""
    if topics and name not in {"key", "queue-offset", *TIMES, *TEXTS}:
        raise UsageError(option="--topic", reason=f"has no effect with --{name}")
    if "queue" in asked and name not in {"queue-offset", *TIMES}:
        raise UsageError(option="--queue", reason=f"has no effect with --{name}")
    if name not in {"key", *TEXTS} and len(topics) > 1:
        raise UsageError(option="--topic", reason=f"only one with --{name}")


def _place(asked: Mapping[str, str], topics: tuple[str, ...]) -> ByQueueOffset:
    if not topics or "queue" not in asked:
        reason = "needs --topic and --queue: an offset counts units of one queue"
        raise UsageError(option="--queue-offset", reason=reason)
    queue_id = number("--queue", asked["queue"], _LARGEST_QUEUE)
    return ByQueueOffset(topics[0], queue_id, number("--queue-offset", asked["queue-offset"]))


def _time(
    asked: Mapping[str, str],
    topics: tuple[str, ...],
    boundary: Boundary,
    like_broker: Version | None,
    clock: Clock,
) -> ByTime:
    if "queue" in asked and not topics:
        raise UsageError(option="--queue", reason="needs --topic")
    queue_id = number("--queue", asked["queue"], _LARGEST_QUEUE) if "queue" in asked else None
    topic = topics[0] if topics else None
    if "around" in asked:
        if boundary is not Boundary.LOWER or like_broker is not None:
            raise UsageError(option="--around", reason="gives a list; --time takes that option")
        start, end = clock.around("--around", asked["around"])
        return ByTime(start, topic, queue_id, until=end)
    timestamp = clock.ms("--time", asked["time"])
    return ByTime(timestamp, topic, queue_id, boundary, like_broker)


def parse_line(line: str, clock: Clock | None = None) -> Request:
    """Understand one line of a file of requests; a clock reads its times.

    Raises:
        UsageError: it cannot be meant.
    """
    text = line.strip()
    if text.startswith("--"):
        return request_of(_options(text), clock=clock)
    if text.startswith("{"):
        return request_of(_object(text), clock=clock)
    return pasted(text, clock)


def pasted(text: str, clock: Clock | None = None) -> Request:
    """Say what a bare string is: an ID, an offset, a place in a queue, a time, else a key.

    What a log or a console has around an ID is left out: `msgId=…,`, quotes, brackets.
    """
    if around := _PASTED_ID.fullmatch(text):
        text = around["id"]
    if len(text) in ID_LENGTHS and _HEX.fullmatch(text):
        return ById(text)
    if _NUMBER.fullmatch(text) and int(text, 0 if text[:2] == "0x" else 10) <= _LARGEST:
        return ByOffset(number("line", text))
    if (place := _PLACE.fullmatch(text)) and int(place[2]) <= _LARGEST_QUEUE:
        return ByQueueOffset(place[1], int(place[2]), number("line", place[3]))
    if is_time(text):
        try:
            return ByTime((clock or Clock()).ms("line", text))
        except UsageError:
            return ByKey(text)
    return ByKey(text)


def parse_lines(lines: Iterable[str], clock: Clock | None = None) -> Iterator[Request]:
    """Understand the lines of a file; empty ones and those that begin with `#` are passed.

    Raises:
        UsageError: a line cannot be meant; its number is said.
    """
    for line_number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            yield parse_line(line, clock)
        except UsageError as error:
            reason = f"{error.option}: {error.reason}"
            raise UsageError(option=f"line {line_number}", reason=reason) from error


def _options(text: str) -> dict[str, str]:
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(option="line", reason=f"cannot be split: {error}") from error
    options: dict[str, str] = {}
    names, values = words[::2], words[1::2]
    for word, value in zip(names, values, strict=False):
        _take(options, word.removeprefix("--"), value)
    if len(names) != len(values):
        raise UsageError(option=names[-1][:KEPT], reason="has no value")
    return options


def _object(text: str) -> dict[str, str]:
    from orjson import JSONDecodeError, loads

    try:
        document = loads(text)
    except JSONDecodeError as error:
        raise UsageError(option="line", reason=f"is not JSON: {error}") from error
    options: dict[str, str] = {}
    for name, value in document.items():
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise UsageError(option=name[:KEPT], reason="must be a text or a number")
        _take(options, name.replace("_", "-"), str(value))
    return options


def _take(options: dict[str, str], name: str, value: str) -> None:
    if name not in NAMES:
        raise UsageError(option=name[:KEPT], reason=f"is not known; {meant(name, NAMES)}")
    if name in options:
        raise UsageError(option=name, reason="is there twice")
    options[name] = value


def described(text: str) -> str:
    """Say in words what an ID is."""
    kind = recognise(text)
    if isinstance(kind, OffsetMessageId):
        return f"offset message ID of {kind.host}, physical offset {kind.physical_offset}"
    if isinstance(kind, UniqueKey):
        return f"unique key of client {kind.host}, process {kind.process_id}"
    if isinstance(kind, ClientMessageId):
        return f"unique key of a 5.x client, made at {iso_time(kind.time)} if its base is UTC"
    problem = id_problem(text)
    return f"no ID that RocketMQ makes ({problem}), taken for a unique key of the application"
