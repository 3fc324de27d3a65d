"""Bodies by a decoder of the user's own: a command, or a function of an installed package.

A command is started once, without a shell, and lives as long as bodies come. For each body it gets
one line of JSON on its standard input, and answers one line of JSON on its standard output:

    {"topic": "orders", "properties": {"TAGS": "A"}, "body_b64": "eyJhIjoxfQ=="}
    {"body": {"a": 1}}                    any JSON; a text is shown as it is
    {"error": "no schema for orders"}     this body alone is not decoded

Its standard error is that of rmqtool. One that ends, is silent for `PATIENCE` seconds or answers
something else ends the run: no row is shown that it did not decode.

A function is an entry point of the group `rmqtool.decoders`. It gets topic, properties and bytes,
and returns a text or what JSON can hold; what it raises is the error of this body.
"""

from __future__ import annotations

import atexit
import os
import select
import shlex
import subprocess
import threading
import time
from base64 import b64encode
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import orjson

from rmqtool.broker import names
from rmqtool.errors import DecoderFailed, UsageError
from rmqtool.formats import properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Function = Callable[[str, Mapping[str, str], bytes], object]

GROUP: Final = "rmqtool.decoders"
PATIENCE: Final = 30.0  # seconds that one answer may take
LONGEST_ANSWER: Final = 128 << 20  # bytes
_PIPE: Final = 32 << 10  # bytes that a pipe takes, though nobody reads
_STEP: Final = 1 << 16
_SHOWN: Final = 100


class Undecoded(Exception):
    """A decoder says why it does not decode a body; the text says it."""


class BodyOwner(NamedTuple):
    """The message that a body is of, for a decoder."""

    topic: str  # of the record
    properties: Mapping[str, str]  # all

    @property
    def sent_to(self) -> str:
        """The topic that the message was sent to, as far as the record says."""
        if self.topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)):
            return properties.origin(self.properties)[0] or self.topic
        if names.is_made_by_brokers(self.topic):
            return self.properties.get(properties.REAL_TOPIC) or self.topic
        return self.topic


class _Request(NamedTuple):
    """What a command gets of a message."""

    topic: str  # that it was sent to
    properties: Mapping[str, str]  # all
    body_b64: str  # decompressed, in base64


class Decoder:
    """Decodes bodies, one at a time whatever the number of threads.

    Args:
        name: as it was asked for.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()

    def decode(self, owner: BodyOwner, body: bytes) -> str:
        """Decode a body.

        Args:
            owner: the message.
            body: decompressed.

        Raises:
            Undecoded: the decoder says that it cannot.
            DecoderFailed: there will be no more answers.
        """
        with self._lock:
            return _text(self._decoded(owner, body))

    def _decoded(self, owner: BodyOwner, body: bytes) -> object:
        raise NotImplementedError


class _FunctionDecoder(Decoder):
    """A function of an installed package."""

    def __init__(self, name: str, function: Function) -> None:
        super().__init__(name)
        self._function = function

    def _decoded(self, owner: BodyOwner, body: bytes) -> object:
        try:
            return self._function(owner.sent_to, owner.properties, body)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise Undecoded(_brief(reason)) from error


class _CommandDecoder(Decoder):
    """A command that answers line by line."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        try:
            words = shlex.split(name)
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command, and no shell
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except (OSError, ValueError, IndexError) as error:
            what = getattr(error, "strerror", None) or str(error)
            reason = f"{name!r} cannot be started: {what}"
            step = f"a command, or the name of an entry point of the group {GROUP}"
            raise UsageError(option="--decoder", reason=reason, step=step) from error
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError
        self._input, self._output = self._process.stdin, self._process.stdout
        self._buffer = bytearray()
        atexit.register(self._end)

    def _decoded(self, owner: BodyOwner, body: bytes) -> object:
        request = _Request(
            _utf8(owner.sent_to),
            {_utf8(name): _utf8(text) for name, text in owner.properties.items()},
            b64encode(body).decode(),
        )
        raw = orjson.dumps(request._asdict()) + b"\n"
        if len(raw) <= _PIPE:
            self._write(raw)
        else:  # a command may answer, or hang, before it has read the line
            threading.Thread(target=self._write, args=(raw,), daemon=True).start()
        line = self._line(time.monotonic() + PATIENCE)
        try:
            answer = orjson.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not {"body", "error"} & answer.keys():
            self._fail(f"answers {_brief(repr(line[:_SHOWN]))}, not a body or an error")
        if answer.get("error") is not None:
            raise Undecoded(_brief(str(answer["error"])))
        return answer.get("body")

    def _write(self, raw: bytes) -> None:
        left = memoryview(raw)
        with suppress(OSError, ValueError):  # it has ended: no answer comes, which is told
            while left:
                left = left[self._input.write(left) or 0 :]

    def _line(self, deadline: float) -> bytes:
        handle, searched = self._output.fileno(), 0
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > LONGEST_ANSWER:
                self._fail(f"answers a line of more than {LONGEST_ANSWER:,} bytes")
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                self._fail(f"did not answer within {PATIENCE:g} s")
            some = os.read(handle, _STEP)
            if not some:
                self._fail(f"ended, with exit code {self._code()}")
            self._buffer += some
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _code(self) -> int | str:
        try:
            return self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "unknown"

    def _fail(self, reason: str) -> NoReturn:
        self._process.kill()
        raise DecoderFailed(command=self.name, reason=reason)

    def _end(self) -> None:
        """Let the command end in order; it has a second."""
        with suppress(OSError):
            self._input.close()
        if self._code() == "unknown":
            self._process.kill()
            self._process.wait()


@lru_cache(maxsize=8)
def decoder_of(name: str) -> Decoder:
    """Give the decoder of a name: of an entry point, otherwise a command.

    Raises:
        UsageError: it cannot be loaded, or started.
    """
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        try:
            return _FunctionDecoder(name, point.load())
        except Exception as error:
            reason = f"entry point {name!r} cannot be loaded: {type(error).__name__}: {error}"
            raise UsageError(option="--decoder", reason=_brief(reason)) from error
    return _CommandDecoder(name)


def _text(value: object) -> str:
    """Give what a decoder returned as text."""
    if isinstance(value, str):
        return _utf8(value)
    try:
        options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
        return orjson.dumps(value, default=_plain, option=options).decode()
    except (TypeError, ValueError) as error:  # too deep, or too large a number
        reason = f"the decoder gives what JSON cannot hold: {error}"
        raise Undecoded(_brief(reason)) from error


def _plain(value: object) -> str:
    """Give a value that JSON does not have: bytes as base64, decimals and others as text."""
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    return str(value)


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _brief(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= 3 * _SHOWN else f"{line[: 3 * _SHOWN]}…"
