"""Judge fields that no checksum covers against what else is known of them (level deep): CL-FIELD.

The address of the broker is the same in neighbouring records, a port has 16 bits, a client makes
its unique key in the moment in which it sends, and only a retry counts attempts.
Source: MessageClientIDSetter#createUniqID, DefaultMQProducerImpl#sendKernelImpl,
SendMessageProcessor, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker import names
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_FIELD, CL_PROPS
from rmqtool.formats.host import IPV4_BYTES, IPV6_BYTES, PORT_BYTES
from rmqtool.formats.message import MESSAGE_PREFIX, middle_of
from rmqtool.formats.message_id import HIGHEST_PORT, UNIQUE_KEY_TAIL
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.judge.bridge import is_bridge
from rmqtool.scan import columns as row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.findings.finding import Finding
    from rmqtool.scan.batch import Batch

    Numbers = npt.NDArray[np.int64]
    Place = Callable[[int], At]


PORT: Final = middle_of(0)["born_port"]
TIME_BYTES: Final = middle_of(0)["store_timestamp"].size
# Hex digits of a unique key, by the client's address; past that and the process stand class
# loader, time and counter.
KEY_LENGTHS: Final = tuple(2 * (n + UNIQUE_KEY_TAIL.size) for n in (IPV4_BYTES, IPV6_BYTES))
LOADER_DIGITS: Final = 2 * UNIQUE_KEY_TAIL["loader_hash"].size
COUNTER_DIGITS: Final = 2 * UNIQUE_KEY_TAIL["counter"].size
NO_HOST: Final = 0  # 0.0.0.0:0, as one number
AFTER_CLIENT: Final = 2 * (UNIQUE_KEY_TAIL.size - UNIQUE_KEY_TAIL["loader_hash"].position)
ZONE_STEP_MS: Final = 900_000  # clients count from their own midnight; zones differ by 15 minutes
KEY_TOLERANCE_MS: Final = 1000
MOST_ATTEMPTS: Final = 1 << 16
# Where attempts are counted: retries, what waits for one, and what broker or proxy move about.
COUNTING: Final = (
    *(b"%", names.SCHEDULE_TOPIC.raw, names.CHECK_MAX_TIME_TOPIC.raw),
    *(names.SYSTEM_PREFIX.raw, names.OLD_SYSTEM_PREFIX.raw),
)
MIX: Final = 0x100000001B3  # odd: the lowest bit stays that of the kind of address
NO_DIGIT: Final = 99
_DIGITS: Final = np.full(256, NO_DIGIT, np.int64)
_DIGITS[np.frombuffer(b"0123456789ABCDEF", np.uint8)] = np.arange(16)
_DIGITS[np.frombuffer(b"abcdef", np.uint8)] = np.arange(10, 16)
_IS_CONTROL: Final = np.arange(256) < 0x20  # noqa: PLR2004
_IS_CONTROL[[1, 2, 9, 10, 13]] = False  # separators, and what texts have
_IS_CONTROL[0x7F] = True


class FieldJudge:
    """Judges batches in the order of the log; remembers the two records before."""

    def __init__(self) -> None:
        self._hosts = np.empty(0, np.int64)
        self._last: At | None = None

    def judge(self, batch: Batch, place: Place) -> Iterator[Finding]:
        """Judge the records of a batch.

        Args:
            batch: of records, with texts.
            place: says where the n-th of them lies.
        """
        flags = batch.columns[row.SYS_FLAG]
        born = np.where(flags & SysFlag.BORNHOST_V6_FLAG, IPV6_BYTES, IPV4_BYTES)
        born_port = batch.columns[row.RECORD_START] + MESSAGE_PREFIX.size + born
        ports = _integers(batch.window, born_port)
        for number in np.flatnonzero((ports < 0) | (ports > HIGHEST_PORT)).tolist():
            message = "the port of bornHost is not a valid port"
            expected = f"at most {HIGHEST_PORT}"
            yield _field(place(number), message, expected, int(ports[number]))
        yield from self._store_hosts(batch, place, born_port + PORT_BYTES + TIME_BYTES)
        yield from _attempts(batch, place)
        yield from _by_unique_key(batch, place)
        yield from _control_characters(batch, place)

    def _store_hosts(self, batch: Batch, place: Place, starts: Numbers) -> Iterator[Finding]:
        """Find a record with another broker's address than those on both of its sides."""
        is_v6 = batch.columns[row.SYS_FLAG] & SysFlag.STOREHOSTADDRESS_V6_FLAG != 0
        count = len(self._hosts)
        hosts = np.concatenate([self._hosts, _hosts(batch.window, starts, is_v6)])
        odd = _between_equals(hosts)
        odd &= (np.roll(hosts, 1) ^ hosts) & 1 == 0  # another kind of address: another setting
        odd &= np.roll(hosts, 1) != NO_HOST  # between two bridges
        for number in np.flatnonzero(odd).tolist():
            if number >= count and is_bridge(batch, number - count):
                continue
            at = self._last if number < count else place(number - count)
            if at is not None:
                message = "storeHost differs from the records before and after it"
                yield _field(at, message, "", "")
        self._hosts = hosts[-2:]
        last = batch.count - 1
        self._last = None if is_bridge(batch, last) else place(last)


def _between_equals(values: Numbers) -> npt.NDArray[np.bool_]:
    """Tell which values stand between two that are equal to each other, but not to them."""
    odd = np.zeros(len(values), bool)
    odd[1:-1] = (values[:-2] == values[2:]) & (values[1:-1] != values[:-2])
    return odd


def _hosts(window: npt.NDArray[np.uint8], starts: Numbers, is_v6: npt.NDArray[np.bool_]) -> Numbers:
    """Make one number of each address and port; its lowest bit is set for IPv6."""
    hosts = is_v6.astype(np.int64)
    for word in range(IPV6_BYTES // PORT_BYTES + 1):  # as many bytes at a time as a port has
        is_there = is_v6 | (word < IPV4_BYTES // PORT_BYTES + 1)
        value = _integers(window, starts + PORT_BYTES * word) << 1
        hosts = np.where(is_there, hosts * MIX + value, hosts)
    return hosts


def _integers(window: npt.NDArray[np.uint8], starts: Numbers) -> Numbers:
    """Read a port, or as many bytes of an address, at each place."""
    raw = np.ascontiguousarray(window[starts[:, None] + np.arange(PORT_BYTES)])
    return raw.view(PORT.numpy_type).reshape(-1).astype(np.int64)


def _field(
    at: At, message: str, expected: object, actual: object, severity: Severity | None = None
) -> Finding:
    return finding(CL_FIELD, at, message, expected=expected, actual=actual, severity=severity)


def _attempts(batch: Batch, place: Place) -> Iterator[Finding]:
    """Find a number of attempts where none are counted, or one that cannot be."""
    attempts = batch.columns[row.RECONSUME_TIMES]
    for number in np.flatnonzero(attempts).tolist():
        count = int(attempts[number])
        topic = batch.topics[int(batch.columns[row.TOPIC_NUMBER][number])]
        if not 0 <= count < MOST_ATTEMPTS:
            message = "reconsumeTimes is not a valid number of attempts"
            yield _field(place(number), message, f"0 to {MOST_ATTEMPTS - 1}", count)
        elif not topic.startswith(COUNTING):
            message = "reconsumeTimes is set, but the topic is not one of retries"
            yield _field(place(number), message, 0, count, Severity.NOTE)


def _by_unique_key(batch: Batch, place: Place) -> Iterator[Finding]:
    """Compare time and address of birth with what the unique key says of the client."""
    columns, window = batch.columns, batch.window
    lengths = columns[row.UNIQUE_KEY_LENGTH]
    numbers = np.flatnonzero(np.isin(lengths, KEY_LENGTHS))
    starts, ends = columns[row.UNIQUE_KEY_START][numbers], lengths[numbers]
    ends = starts + ends
    digits = _DIGITS[window[ends[:, None] - AFTER_CLIENT + np.arange(AFTER_CLIENT)]]
    is_key = (digits[:, LOADER_DIGITS:-COUNTER_DIGITS] != NO_DIGIT).all(axis=1)
    yield from _born(batch, place, numbers[is_key], digits[is_key, LOADER_DIGITS:-COUNTER_DIGITS])
    clients = np.zeros(len(numbers), np.int64)
    for digit in range(max(KEY_LENGTHS) - AFTER_CLIENT):
        places = np.minimum(starts + digit, ends - AFTER_CLIENT)  # the same digit at the end
        clients = clients * MIX + window[places]
    yield from _born_hosts(batch, place, numbers[is_key], clients[is_key])


def _born(
    batch: Batch, place: Place, numbers: Numbers, digits: npt.NDArray[np.int64]
) -> Iterator[Finding]:
    """Compare bornTimestamp with the time in the unique key, whose zone is unknown."""
    times = (digits << np.arange(28, -4, -4)).sum(axis=1)
    born = batch.columns[row.BORN_TIMESTAMP][numbers]
    rest = (born - times) % ZONE_STEP_MS
    differs = np.minimum(rest, ZONE_STEP_MS - rest) > KEY_TOLERANCE_MS
    for differing in np.flatnonzero(differs).tolist():
        message = (
            "bornTimestamp is not the time when the unique key was made; messages that were sent "
            "on under their old key have such times, too"
        )
        expected = f"{int(times[differing])} ms into a month"
        at = place(int(numbers[differing]))
        yield _field(at, message, expected, int(born[differing]), Severity.NOTE)


def _born_hosts(
    batch: Batch, place: Place, numbers: Numbers, clients: Numbers
) -> Iterator[Finding]:
    """Find the one message of a client that came from another address, by a single bit.

    A client with several producers has as many addresses; so has one after a proxy.
    """
    flags = batch.columns[row.SYS_FLAG][numbers]
    starts = batch.columns[row.RECORD_START][numbers] + MESSAGE_PREFIX.size
    is_v6 = flags & SysFlag.BORNHOST_V6_FLAG != 0
    hosts = _hosts(batch.window, starts, is_v6)
    order = np.argsort(clients, kind="stable")
    odd = _between_equals(hosts[order])
    odd[1:-1] &= clients[order][:-2] == clients[order][2:]
    odd &= _is_stray(clients, hosts)[order]
    for number in np.flatnonzero(odd).tolist():
        pair = order[[number, number - 1]]
        host = int(pair[0])
        if _bits_apart(batch, starts[pair], is_v6[pair]) == 1:
            message = "bornHost differs from its client's messages before and after it"
            yield _field(place(int(numbers[host])), message, "", "", Severity.NOTE)


def _is_stray(clients: Numbers, hosts: Numbers) -> npt.NDArray[np.bool_]:
    """Tell which messages alone came from an address, while all others of their client agree."""
    _, known = np.unique(clients, return_inverse=True)
    pairs, pair, count = np.unique(
        np.stack([known, hosts]), axis=1, return_inverse=True, return_counts=True
    )
    addresses = np.bincount(pairs[0])
    lone: npt.NDArray[np.bool_] = (count[pair.reshape(-1)] == 1) & (addresses[known] == 2)  # noqa: PLR2004
    return lone


def _bits_apart(batch: Batch, starts: Numbers, is_v6: npt.NDArray[np.bool_]) -> int:
    """Count the bits in which two addresses differ."""
    sizes = np.where(is_v6, IPV6_BYTES, IPV4_BYTES) + PORT_BYTES
    places = zip(starts.tolist(), sizes.tolist(), strict=True)
    either, other = (int.from_bytes(batch.text(start, size)) for start, size in places)
    return (either ^ other).bit_count()


def _control_characters(batch: Batch, place: Place) -> Iterator[Finding]:
    """Find bytes in properties that are no text; applications hardly ever put them there."""
    columns = batch.columns
    starts, lengths = columns[row.PROPERTIES_START], columns[row.PROPERTIES_LENGTH]
    ends = starts + lengths
    first = int(starts.min())
    places = np.flatnonzero(_IS_CONTROL[batch.window[first : int(ends.max())]]) + first
    counts = np.searchsorted(places, ends) - np.searchsorted(places, starts)
    for number in np.flatnonzero((counts > 0) & (lengths > 0)).tolist():
        message = "the properties hold control characters"
        actual = f"{int(counts[number])} of them"
        yield finding(CL_PROPS, place(number), message, actual=actual, severity=Severity.NOTE)
