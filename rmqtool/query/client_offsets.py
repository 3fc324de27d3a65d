"""How far a broadcast client has consumed: it keeps its offsets itself, in a file of its machine.

`~/.rocketmq_offsets/CLIENT_ID/GROUP/offsets.json`; where that is empty or cannot be parsed, the
client takes the `.bak` beside it.
Source: LocalFileOffsetStore#readLocalOffset, #readLocalOffsetBak, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import DecodeError, UnreadablePath, UsageError
from rmqtool.formats.config import parse_object
from rmqtool.formats.config_shapes import ClientOffset, client_offsets
from rmqtool.store.address import place_of
from rmqtool.store.config_files import BACKUP, CLIENT_OFFSETS, LARGEST_CONFIG

if TYPE_CHECKING:
    from rmqtool.broker.conf import BrokerConf

BROKER_NAME: Final = "brokerName"


class ClientOffsets(NamedTuple):
    """Offsets of one client."""

    group: str  # its consumer group, which the directory is named by
    committed: dict[tuple[str, int], int]  # queue offset that is consumed next, by topic and queue


def is_client_file(text: str) -> bool:
    """Tell whether the name of a group is the path of such a file."""
    return (
        PurePath(text).name in {CLIENT_OFFSETS, f"{CLIENT_OFFSETS}{BACKUP}"}
        and PurePath(text).name != text
    )


def read_client_offsets(path: str, broker_conf: BrokerConf | None) -> ClientOffsets:
    """Read the offsets of a client, as it would itself at its next start.

    Args:
        path: of `offsets.json`, or of its `.bak`.
        broker_conf: of the broker that is meant; without its name the file must know one broker.

    Raises:
        DecodeError: neither the file nor its `.bak` can be parsed.
        UnreadablePath: neither can be read.
        UsageError: it is not clear which broker is meant.
    """
    found = _entries(path)
    brokers = sorted({one.broker for one in found})
    name = broker_conf.text(BROKER_NAME) if broker_conf else None
    if name is None and len(brokers) > 1:
        reason = f"{path} is about {', '.join(brokers)}; a --broker-conf with brokerName tells"
        raise UsageError(option="--group", reason=reason)
    committed = {
        (one.topic, one.queue_id): one.queue_offset for one in found if name in {None, one.broker}
    }
    return ClientOffsets(PurePath(path).parent.name, committed)


def _entries(path: str) -> list[ClientOffset]:
    """Read the file; its `.bak` in place of one that is gone, empty or torn."""
    try:
        return _parsed(path)
    except (DecodeError, UnreadablePath) as error:
        if path.endswith(BACKUP):
            raise
        with suppress(DecodeError, UnreadablePath):
            return _parsed(f"{path}{BACKUP}")
        raise error from None


def _parsed(path: str) -> list[ClientOffset]:
    raw = place_of(path).read_whole(LARGEST_CONFIG)
    if not raw.strip(b"\0"):
        raise DecodeError(path=path, position=0, field="json", reason="it is empty")
    return list(client_offsets(parse_object(raw, path=path)))
