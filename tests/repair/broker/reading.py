"""What a message store gives of a queue: by pulls, by time, and after each step of expiry."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError, Py4JJavaError

from tests.broker.bare_store import BareStore
from tests.broker.jvm import Jvm
from tests.broker.stopping import stop
from tests.startup.oracle import files_of
from tests.startup.small_store import SETTINGS

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

BATCHES: Final = (1, 32, 900)
_PHYSICAL_OFFSET: Final = 28  # in a record
_GIVE_UP_SECONDS: Final = 600  # a busy machine is no finding
_FAILED: Final = -1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Smallest and (exclusive) largest queue offset."""

    minimum: int
    maximum: int


class OpenStore:
    """A store that was loaded and whose dispatch has ended."""

    def __init__(self, jvm: Jvm, root: Path, settings: Mapping[str, object] = SETTINGS) -> None:
        self._gateway = jvm.gateway
        self._bare = BareStore(jvm, root, settings)
        self._root = root
        before = files_of(root)
        self.store = self._bare.store
        self.topics = self._bare.configured_topics()
        self.is_five = jvm.is_five
        self.loads = self._bare.load()
        self.behind = self._started() if self.loads else 0
        after = files_of(root)
        kinds = ("commitlog", "consumequeue", "batchconsumequeue")
        self.deleted = sorted(
            path for kind in kinds for path in before.get(kind, set()) - after.get(kind, set())
        )

    def _started(self) -> int:
        """Start, and give how many bytes dispatch is behind the end of the log when it rests."""
        self.store.start()
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        while (behind := int(self.store.dispatchBehindBytes())) > 0:
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        return behind

    def close(self) -> None:
        """Stop the store; files are then as after a clean stop."""
        if self.loads:
            stop(self._bare.jvm, self.store)
        self._gateway.detach(self.store)

    def close_later(self) -> None:
        """Stop the store in the background: it sleeps for seconds over it."""

        def close() -> None:
            with contextlib.suppress(Py4JError):  # the process has been ended meanwhile
                self.close()

        threading.Thread(target=close, daemon=True).start()

    def bounds(self, topic: str, queue_id: int = 0) -> Bounds:
        """Give the bounds of a queue."""
        return Bounds(
            int(self.store.getMinOffsetInQueue(topic, queue_id)),
            int(self.store.getMaxOffsetInQueue(topic, queue_id)),
        )

    def all_of(self, topic: str, queue_id: int) -> list[int]:
        """Give the physical offsets of what a queue delivers from its minimum on."""
        start = self.bounds(topic, queue_id).minimum
        return self.pulled(topic, start, BATCHES[1], queue_id=queue_id)

    def pulled(
        self, topic: str, start: int, batch: int, most: int | None = None, queue_id: int = 0
    ) -> list[int]:
        """Give the physical offsets of what is delivered from a queue offset to the end.

        An empty buffer, which a broker cannot hand out, counts as -1.

        Args:
            topic: whose queue.
            start: queue offset.
            batch: messages of one pull.
            most: enough messages; null reads on.
            queue_id: which queue.
        """
        found: list[int] = []
        maximum = self.bounds(topic, queue_id).maximum
        while start < maximum and (most is None or len(found) < most):
            with self._borrowed(
                self.store.getMessage("reader", topic, queue_id, start, batch, None)
            ) as result:
                found += self._offsets(result)
                following = int(result.getNextBeginOffset())
                result.release()
            if following <= start:
                break
            start = following
        return found

    def _offsets(self, result: JavaObject) -> Iterator[int]:
        with self._borrowed(result.getMessageBufferList()) as buffers:
            for number in range(buffers.size()):
                with self._borrowed(buffers.get(number)) as buffer:
                    yield int(buffer.getLong(_PHYSICAL_OFFSET)) if buffer.remaining() else _FAILED

    def at_time(self, topic: str, time_ms: int) -> int:
        """Give the queue offset that is found for a store time; -1 for an exception."""
        try:
            return int(self.store.getOffsetInQueueByTime(topic, 0, time_ms))
        except Py4JJavaError:
            return _FAILED

    def minimum_after(self, topic: str, log_starts: Sequence[int]) -> list[int]:
        """Give the smallest queue offset after each step of an expiry of segments.

        Args:
            topic: of the queue.
            log_starts: where the log starts after each step; files of the queue are deleted.
        """
        minima = []
        with self._queue(topic) as queue:
            for start in log_starts:
                queue.deleteExpiredFile(start)
                minima.append(int(queue.getMinOffsetInQueue()))
        return minima

    def minimum_at_once(self, topic: str, log_start: int) -> int:
        """Give the smallest queue offset of a store that is opened when its log starts there."""
        with self._queue(topic) as queue:
            queue.setMinLogicOffset(0)
            queue.correctMinOffset(log_start)
            minimum = int(queue.getMinOffsetInQueue())
            queue.setMinLogicOffset(0)
        return minimum

    @contextlib.contextmanager
    def _queue(self, topic: str) -> Iterator[JavaObject]:
        with (
            self._borrowed(self.store.getConsumeQueueTable()) as table,
            self._borrowed(table.get(topic)) as queues,
            self._borrowed(queues.get(0)) as queue,
        ):
            yield queue

    @contextlib.contextmanager
    def _borrowed(self, java_object: JavaObject) -> Iterator[JavaObject]:
        """Let go of an object at the end, or Java keeps a whole store for it."""
        try:
            yield java_object
        finally:
            self._gateway.detach(java_object)
