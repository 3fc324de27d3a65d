"""What a real message store with queues in RocksDB does when it is opened."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from py4j.protocol import Py4JJavaError

from tests.broker.bare_store import BareStore
from tests.broker.stopping import stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from py4j.java_gateway import JavaObject

    from tests.broker.jvm import Jvm

    QueueKey = tuple[str, int]

_AT_ONCE: Final = 32
_SETTLED_SECONDS: Final = 0.15
_FAILED: Final = ("block checksum mismatch", "is not ready")  # the store closes it, to open it anew


class RocksSeen(NamedTuple):
    """What a store did.

    Attributes:
        loaded: whether `load` and `start` were content.
        log: smallest physical offset and end of the log.
        queues: minimum, maximum and messages that a consumer gets, by topic and queue number.
        second: minimum and maximum of the queues of the second store of a combined one.
        has_failed: whether RocksDB has refused to go on, as a compaction met a damaged block: that
            may be so at once, or later; consumers are given errors from then on.
    """

    loaded: bool
    log: tuple[int, int] = (-1, 0)
    queues: Mapping[QueueKey, tuple[int, int, int]] = {}
    second: Mapping[QueueKey, tuple[int, int]] = {}
    has_failed: bool = False


def observe(
    jvm: Jvm, root: Path, settings: Mapping[str, object], keys: Iterable[QueueKey]
) -> RocksSeen:
    """Open the store at `root`, which is changed by that, and say what became of it."""
    try:
        bare = BareStore(jvm, root, settings)
        store = bare.store
        is_double = bool(settings.get("rocksdbCQDoubleWriteEnable"))
        if not bare.load():
            stop(jvm, store)
            return RocksSeen(False)
        store.start()
    except Py4JJavaError:
        return RocksSeen(False)
    keys = list(keys)
    try:
        _settle(store, keys)
        queues = {key: (*_extent(store, key), _delivered(store, key)) for key in keys}
    except Py4JJavaError as error:
        if not any(sign in str(error.java_exception) for sign in _FAILED):
            raise
        stop(jvm, store)
        return RocksSeen(True, has_failed=True)
    second = {}
    if is_double:
        beside = store.getRocksDBMessageStore() if jvm.version == "5.3.3" else store.getQueueStore()
        if jvm.version == "5.3.3":
            second = {key: _extent(beside, key) for key in keys}
        else:
            inner = beside.getRocksDBConsumeQueueStore()
            second = {
                key: (int(inner.getMinOffsetInQueue(*key)), int(inner.getMaxOffsetInQueue(*key)))
                for key in keys
            }
    seen = RocksSeen(True, bare.physical_offsets(), queues, second)
    stop(jvm, store)
    return seen


def _settle(store: JavaObject, keys: Iterable[QueueKey]) -> None:
    """Wait until the log is dispatched, and RocksDB's thread, which is later, has written all."""
    last: list[object] = []
    while True:
        behind = int(store.dispatchBehindBytes())
        now: list[object] = [_extent(store, key) for key in keys]
        if behind <= 0 and now == last:
            return
        last = now if behind <= 0 else []
        time.sleep(_SETTLED_SECONDS)


def _extent(store: JavaObject, key: QueueKey) -> tuple[int, int]:
    return int(store.getMinOffsetInQueue(*key)), int(store.getMaxOffsetInQueue(*key))


def _delivered(store: JavaObject, key: QueueKey) -> int:
    """Count what a consumer gets who pulls from the minimum to the end; an exception ends it."""
    position, maximum = _extent(store, key)
    count = 0
    while position < maximum:
        try:
            result = store.getMessage("oracle", *key, position, _AT_ONCE, None)
        except Py4JJavaError:
            return count
        count += int(result.getMessageCount())
        following = int(result.getNextBeginOffset())
        result.release()
        if following <= position:
            return count
        position = following
    return count
