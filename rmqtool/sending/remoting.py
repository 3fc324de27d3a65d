"""RocketMQ's remoting protocol: requests and their answers, matched by number, over one connection.

A frame is its length (4 bytes), the length of the header with the kind of serialization in the
highest byte (4 bytes), the header as JSON, and a body. What a peer answers is bounded: no length
that it names allocates anything, and an answer has a deadline as a whole.
Source: RemotingCommand#encode, #decode, NettyDecoder, RemotingSerializable, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Self

import orjson

from rmqtool.errors import RemotingError
from rmqtool.sending.access import PLAIN
from rmqtool.sending.options import shown
from rmqtool.sending.tls import encrypted, other_protocol, takes_tls_only, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.sending.access import Access

LARGEST_FRAME: Final = 16 << 20  # as NettyDecoder has it
_LENGTH: Final = struct.Struct(">i")
_HEADER_LENGTH: Final = 0xFFFFFF
_JSON: Final = 0  # kind of serialization
_RESPONSE: Final = 1  # bit of `flag`
_VERSION: Final = 399  # as brokers of 4.9.3 know it; nothing depends on it
_STEP: Final = 64 << 10
_STRAYS: Final = 1000  # frames that answer something else, until the peer is given up
_SHOWN: Final = 300
# Older releases write numbers as names without quotes. Texts are passed over whole, and no byte is
# looked at again and again: an answer may be hostile.
_BARE_NAME: Final = re.compile(
    rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|(?<![0-9-])(-?[0-9]++)\s*+:', re.DOTALL
)


class RemotingAnswer(NamedTuple):
    """What a peer answered."""

    code: int  # 0 is success
    remark: str  # why not, in its own words
    fields: Mapping[str, str]  # of the header
    body: bytes  # bytes


class Connection:
    """A connection to a name server or a broker; a context manager.

    Args:
        address: host and port.
        timeout: seconds that connecting may take, and each answer.
        access: how requests are made.

    Raises:
        RemotingError: nobody answers there, or not as TLS wants it.
    """

    def __init__(self, address: tuple[str, int], timeout: float, access: Access = PLAIN) -> None:
        self.address, self.access, self._timeout, self._opaque = address, access, timeout, 0
        self._is_answered, self._strays = False, 0
        self._posted: list[bytes] = []  # requests that are not sent yet
        self._awaited: set[int] = set()  # numbers of requests without an answer
        self._buffer = bytearray()  # what was read and is not a whole frame yet
        try:
            self._socket = socket.create_connection(address, timeout)
        except (OSError, UnicodeError) as error:
            raise _unreachable(address, error) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if access.tls is not None:
            self._socket = encrypted(self._socket, access.tls, address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; twice does no harm."""
        self._socket.close()

    @property
    def is_open(self) -> bool:
        """Whether the peer has not closed the connection, which brokers do when it is idle."""
        try:
            readable, _, _ = select.select([self._socket], [], [], 0)
            if not readable or self.access.tls is None:
                return not readable or bool(self._socket.recv(1, socket.MSG_PEEK))
            return self._is_quiet()
        except (OSError, ValueError):
            return False

    def _is_quiet(self) -> bool:
        """Tell whether TLS itself sent something, such as a session ticket, and nothing else."""
        from ssl import SSLWantReadError

        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except SSLWantReadError:
            return True
        return False

    @property
    def is_busy(self) -> bool:
        """Whether requests are on their way, or are about to be."""
        return bool(self._awaited)

    def fileno(self) -> int:
        """Give the descriptor, for `select`."""
        return self._socket.fileno()

    def ask(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> RemotingAnswer:
        """Send a request and wait for its answer.

        Args:
            code: of the request.
            fields: of its header.
            body: bytes.

        Raises:
            RemotingError: there is no answer, or none that can be read. Whether the request was
                carried out is then unknown.
        """
        deadline = time.monotonic() + self._timeout
        opaque = self.post(code, fields, body)
        self.flush()
        while (left := deadline - time.monotonic()) > 0:
            for number, answer in self.received(left):
                if number == opaque:
                    return answer
        raise self.silence()

    def post(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> int:
        """Make a request that `flush` sends; give the number that its answer will have.

        Args:
            code: of the request.
            fields: of its header.
            body: bytes.
        """
        self._opaque += 1
        if self.access.credentials is not None:
            fields = self.access.credentials.signed(fields, body)
        self._posted.append(frame(code, self._opaque, fields, body))
        self._awaited.add(self._opaque)
        return self._opaque

    def flush(self) -> None:
        """Send what was posted.

        Raises:
            RemotingError: the peer does not take it; whether it got some of it is unknown.
        """
        raw = b"".join(self._posted)
        self._posted.clear()
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(raw)
        except TimeoutError as error:
            raise self.silence() from error
        except OSError as error:
            raise self._lost(words_of(error)) from error

    def received(self, wait: float) -> list[tuple[int, RemotingAnswer]]:
        """Give the answers that came, each with the number of its request; it may be none.

        Args:
            wait: seconds that the first bytes may take; above 0.

        Raises:
            RemotingError: the connection ended, or what came cannot be read.
        """
        try:
            self._socket.settimeout(wait)
            self._read()
        except TimeoutError:
            return []
        except OSError as error:
            raise self._lost(words_of(error)) from error
        answers: list[tuple[int, RemotingAnswer]] = []
        for raw in self._frames():
            head, answer = self._parsed(raw)
            number = head.get("opaque", 0)
            if number in self._awaited and head.get("flag", 0) & _RESPONSE:
                self._awaited.remove(number)
                self._is_answered, self._strays = True, 0
                answers.append((number, answer))
                continue
            self._strays += 1
            if self._strays >= _STRAYS:
                self._refuse("answers what was not asked")
        return answers

    def silence(self) -> RemotingError:
        """Give the error of an answer that takes too long."""
        return self._lost(f"no answer within {self._timeout:g} s")

    def _read(self) -> None:
        """Read what is there; memory grows with what comes, not with what was announced."""
        some = self._socket.recv(_STEP)
        if not some:
            reason = "the connection was closed before the answer"
            is_plain = self.access.tls is None and not self._is_answered
            if is_plain and takes_tls_only(self.address):
                reason = "takes TLS only: --tls"
            raise self._lost(reason)
        self._buffer += some
        if self.access.tls is not None:  # of a TLS record `select` shows no more
            while left := self._socket.pending():  # type: ignore[attr-defined]  # an SSLSocket
                self._buffer += self._socket.recv(left)

    def _frames(self) -> Iterator[bytes]:
        """Yield the whole frames of what was read, each without its length."""
        buffer = self._buffer
        while len(buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer)
            head = bytes(buffer[: 2 * _LENGTH.size])
            if not _LENGTH.size <= length <= LARGEST_FRAME:
                self._refuse(
                    other_protocol(head[: _LENGTH.size]) or f"an answer of {length:,} bytes"
                )
            if len(head) == 2 * _LENGTH.size and (protocol := other_protocol(head)):
                self._refuse(protocol)
            end = _LENGTH.size + length
            if len(buffer) < end:
                return
            raw = bytes(buffer[_LENGTH.size : end])
            del buffer[:end]
            yield raw

    def _parsed(self, raw: bytes) -> tuple[dict[str, Any], RemotingAnswer]:
        (word,) = _LENGTH.unpack_from(raw)
        length, kind = word & _HEADER_LENGTH, (word >> 24) & 0xFF
        if kind != _JSON or length > len(raw) - _LENGTH.size:
            self._refuse("an answer without a header in JSON")
        head = json_of(raw[_LENGTH.size : _LENGTH.size + length])
        fields = head.get("extFields") or {} if isinstance(head, dict) else None
        if (
            not isinstance(head, dict)
            or not isinstance(fields, dict)
            or not all(isinstance(head.get(name, 0), int) for name in ("code", "opaque", "flag"))
        ):
            self._refuse("an answer whose header cannot be read")
        texts = {str(name): str(value) for name, value in fields.items()}
        remark = str(head.get("remark") or "")
        answer = RemotingAnswer(head.get("code", 0), remark, texts, raw[_LENGTH.size + length :])
        return head, answer

    def _lost(self, reason: str) -> RemotingError:
        return RemotingError(address=shown(*self.address), reason=reason, is_unsure=True)

    def _refuse(self, what: str) -> NoReturn:
        reason = f"is not a RocketMQ server: {what}"
        raise self._lost(reason)


def frame(code: int, opaque: int, fields: Mapping[str, str], body: bytes) -> bytes:
    """Give the bytes of a request."""
    head = orjson.dumps(
        {
            "code": code,
            "flag": 0,
            "language": "PYTHON",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": _VERSION,
            "extFields": dict(fields),
        }
    )
    length = _LENGTH.size + len(head) + len(body)
    return _LENGTH.pack(length) + _LENGTH.pack(len(head)) + head + body


def json_of(raw: bytes) -> object:
    """Read JSON, with numbers as names, too; None where it is not one."""
    try:
        return orjson.loads(raw)
    except ValueError:
        quoted = _BARE_NAME.sub(lambda match: b'"%b":' % match[1] if match[1] else match[0], raw)
        try:
            return orjson.loads(quoted)
        except ValueError:
            return None


def brief(remark: str) -> str:
    """Give the first line of what a peer says, of a length that can be shown."""
    line = remark.strip().splitlines()[0] if remark.strip() else "no reason given"
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _unreachable(address: tuple[str, int], error: Exception) -> RemotingError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return RemotingError(address=shown(*address), reason=f"cannot be reached: {reason}")
