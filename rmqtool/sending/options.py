"""What `send` is asked. Light: `--help` reads it, too."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from rmqtool.broker import names
from rmqtool.errors import UsageError

LEDGER: Final = ".sent"  # what the ledger's name has beyond that of the file
# Messages without an answer: this many keep a broker busy that answers within milliseconds, and may
# be sent twice when the process is killed. More gain nothing (`bench_send`).
WINDOW: Final = 64
_PORTS: Final = range(1, 1 << 16)


class Delays(enum.StrEnum):
    """What becomes of the delay of messages that waited for their time."""

    DROP = "drop"  # they are sent at once
    KEEP = "keep"  # what is left of it is kept


class Destination(NamedTuple):
    """Where messages go instead of their own topics."""

    topic: str | None = None  # None is the topic that each was sent to
    group: str | None = None  # the one consumer group that gets them through its retry topic

    @property
    def whole(self) -> str | None:
        """The topic that all messages go to; None where each goes to its own."""
        return self.topic if self.group is None else f"{names.RETRY_PREFIX}{self.group}"


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What `send` was asked."""

    file: str  # JSON lines or records
    name_servers: tuple[tuple[str, int], ...] = ()  # host and port each; empty only for a dry run
    topics: tuple[str, ...] = ()  # only messages that go to these; empty is all
    to_topic: str | None = None  # where all of them go instead of their own topics
    to_group: str | None = None  # the one consumer group that gets them, each with its own topic
    dry_run: bool = False  # only say what would be sent
    skip_bad: bool = False  # send the others where some cannot be sent
    held: bool = False  # half messages and timer copies, too
    pending: bool = False  # waiting timers, too
    system_topics: bool = False  # messages of brokers' own topics, too
    rate: int | None = None  # messages a second, at most; None is as fast as brokers answer
    window: int = WINDOW  # messages on their way at once, at most
    ledger: str | None = None  # path; None is beside the file
    # of messages that waited; None keeps them with `pending`, and drops them without
    delays: Delays | None = None
    timeout: float = 10.0  # seconds that a connection or an answer may take
    credentials: str | None = None  # file with access key and secret key
    tls: bool = False  # connections are encrypted
    tls_ca: str | None = None  # certificates that are trusted; None is those of the system
    tls_cert: str | None = None  # our own certificate, where brokers ask for one
    tls_key: str | None = None  # its key; None is in the same file

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        if not self.name_servers and not self.dry_run:
            raise UsageError(
                option="--name-server",
                reason="is needed: it says which brokers have the topics",
                step="--name-server HOST:9876, or --dry-run to see what the file holds",
            )

        if self.to_topic is not None and self.to_group is not None:
            raise UsageError(option="--to-group", reason="cannot be combined with --to-topic")
        for option in ("tls_ca", "tls_cert", "tls_key"):
            if getattr(self, option) is not None and not self.tls:
                raise UsageError(option=f"--{option.replace('_', '-')}", reason="needs --tls")
        if self.tls_key is not None and self.tls_cert is None:
            raise UsageError(option="--tls-key", reason="needs --tls-cert")

    @property
    def keeps_delays(self) -> bool:
        """Whether what is left of delays is kept."""
        return self.pending if self.delays is None else self.delays is Delays.KEEP

    @property
    def destination(self) -> Destination:
        """Where messages go."""
        return Destination(self.to_topic, self.to_group)

    @property
    def ledger_path(self) -> str:
        """Where the ledger is."""
        return self.file + LEDGER if self.ledger is None else self.ledger

    @property
    def cluster(self) -> str:
        """The name servers as text."""
        return ";".join(shown(*server) for server in self.name_servers)


def shown(host: str, port: int) -> str:
    """Give an address as it is typed."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def addresses(text: str) -> tuple[tuple[str, int], ...]:
    """Read the addresses of name servers as clients do: `10.0.0.1:9876;10.0.0.2:9876`.

    Raises:
        UsageError: one is no address with a port.
    """
    parsed = tuple(
        address_of(address.strip()) for address in text.replace(",", ";").split(";") if address
    )
    wrong = [
        address
        for address in text.replace(",", ";").split(";")
        if address and not address_of(address.strip())
    ]
    if not parsed or wrong:
        what = wrong[0] if wrong else text
        reason = f"{what!r} is not an address with a port, such as 10.0.0.1:9876 or [::1]:9876"
        raise UsageError(option="--name-server", reason=reason)
    return tuple(address for address in parsed if address)


def address_of(text: str) -> tuple[str, int] | None:
    """Read `HOST:PORT` or `[HOST]:PORT`; None where it is neither."""
    host, separator, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_number = port.isascii() and port.isdecimal() and len(port) < 6  # noqa: PLR2004 - 65535
    if not separator or not bare or not is_number or int(port) not in _PORTS:
        return None
    return bare, int(port)
