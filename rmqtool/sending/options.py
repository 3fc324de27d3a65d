"""What `send` is asked. Light: `--help` reads it, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rmqtool.errors import UsageError

LEDGER: Final = ".sent"  # what the ledger's name has beyond that of the file
_PORTS: Final = range(1, 1 << 16)


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What `send` was asked."""

    file: str  # JSON lines or records
    name_servers: tuple[tuple[str, int], ...] = ()  # host and port each; empty only for a dry run
    topics: tuple[str, ...] = ()  # only messages that go to these; empty is all
    to_topic: str | None = None  # where all of them go instead of their own topics
    dry_run: bool = False  # only say what would be sent
    skip_bad: bool = False  # send the others where some cannot be sent
    held: bool = False  # half messages and timer copies, too
    system_topics: bool = False  # messages of brokers' own topics, too
    rate: int | None = None  # messages a second, at most; None is as fast as brokers answer
    ledger: str | None = None  # path; None is beside the file
    timeout: float = 10.0  # seconds that a connection or an answer may take

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        if not self.name_servers and not self.dry_run:
            raise UsageError(
                option="--name-server",
                reason="is needed: it says which brokers have the topics",
                step="--name-server HOST:9876, or --dry-run to see what the file holds",
            )

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
    found = tuple(address_of(one.strip()) for one in text.replace(",", ";").split(";") if one)
    wrong = [
        one for one in text.replace(",", ";").split(";") if one and not address_of(one.strip())
    ]
    if not found or wrong:
        what = wrong[0] if wrong else text
        reason = f"{what!r} is not an address with a port, such as 10.0.0.1:9876 or [::1]:9876"
        raise UsageError(option="--name-server", reason=reason)
    return tuple(one for one in found if one)


def address_of(text: str) -> tuple[str, int] | None:
    """Read `HOST:PORT` or `[HOST]:PORT`; None where it is neither."""
    host, separator, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_number = port.isascii() and port.isdecimal() and len(port) < 6  # noqa: PLR2004 - 65535
    if not separator or not bare or not is_number or int(port) not in _PORTS:
        return None
    return bare, int(port)
