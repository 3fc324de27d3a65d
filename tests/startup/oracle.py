"""What a real message store does when it is opened: the answer that predictions must equal."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError, Py4JJavaError

from tests.broker.bare_store import BareStore
from tests.plain_store import INDEX_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from py4j.java_gateway import JavaObject

    from tests.broker.jvm import Jvm

_POLL_SECONDS: Final = 0.02
# Answers of Java in which dispatch is where it was: seconds, and more where a machine is busy.
_STALLED_POLLS: Final = 125
_PULLED: Final = 32  # messages, as clients ask for (pullBatchSize)


@dataclass(slots=True)
class Observation:
    """What a store did.

    Attributes:
        loaded: whether `load` was content.
        hangs: whether `start` never came back, as dispatch went no further.
        files: paths left, by directory of the store root.
        index_entries: entries in use of each index file, by path.
        log: smallest physical offset and end of the log.
        dispatch_position: where dispatch would go on.
        queues: minimum and maximum by topic and queue number.
        delivered: messages that a consumer gets who pulls from the minimum on, likewise.
    """

    loaded: bool
    hangs: bool = False
    files: dict[str, set[str]] = field(default_factory=dict)
    index_entries: dict[str, int] = field(default_factory=dict)
    log: tuple[int, int] = (-1, 0)
    dispatch_position: int = 0
    queues: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    delivered: dict[tuple[str, int], int] = field(default_factory=dict)


class Oracle:
    """Opens stores in one Java process, one after the other.

    A store is stopped in the background: stopping takes seconds, and what it did is known by then.
    """

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm

    def observe(
        self,
        root: Path,
        settings: Mapping[str, object],
        expected: Mapping[tuple[str, int], int],
    ) -> Observation:
        """Open the store at `root`, which is changed by that, and say what became of it.

        Args:
            root: the store.
            settings: of its broker.conf.
            expected: messages that queues ought to deliver; where they deliver another number,
                buffers without a byte, which zeros in a queue make, are not counted.
        """
        bare = BareStore(self.jvm, root, settings)
        try:
            loaded = bare.load()
        except Py4JJavaError:  # an Error, which the broker does not catch either
            loaded = False
        seen = Observation(loaded)
        if loaded:
            seen.hangs = self._start(bare.store)
            seen.log = bare.physical_offsets()
            seen.dispatch_position = seen.log[1] - int(bare.store.dispatchBehindBytes())
            seen.queues = self._queue_offsets(bare.store)
            if not seen.hangs:  # until it is up it delivers nothing
                seen.delivered = {
                    key: self._delivered(bare.store, key, offsets, expected.get(key, 0))
                    for key, offsets in seen.queues.items()
                }
        seen.files = files_of(root)
        seen.index_entries = {
            path: index_entries(root / path) for path in seen.files.get("index", ())
        }
        if not seen.hangs:
            self.stop(bare.store)
        return seen

    def _queue_offsets(self, store: JavaObject) -> dict[tuple[str, int], tuple[int, int]]:
        """Give minimum and maximum of each queue; what Java hands out for that is let go again."""
        keys = []
        with self._borrowed(store.getConsumeQueueTable()) as table:
            for topic in self._keys(table):
                with self._borrowed(table.get(topic)) as queues:
                    keys += [(str(topic), int(queue_id)) for queue_id in self._keys(queues)]
        return {
            key: (int(store.getMinOffsetInQueue(*key)), int(store.getMaxOffsetInQueue(*key)))
            for key in keys
        }

    def _keys(self, java_map: JavaObject) -> list[Any]:
        with self._borrowed(java_map.keySet()) as keys, self._borrowed(keys.toArray()) as array:
            return list(array)

    @contextlib.contextmanager
    def _borrowed(self, java_object: JavaObject) -> Iterator[JavaObject]:
        """Let go of an object at the end: through it Java would keep a whole store."""
        try:
            yield java_object
        finally:
            self.jvm.gateway.detach(java_object)

    def _start(self, store: JavaObject) -> bool:
        """Start, and tell whether that never ends."""
        starting = _Background(store.start)
        last, polls = None, 0
        while True:
            behind = int(store.dispatchBehindBytes())
            if behind <= 0 and not starting.is_running:
                return False
            polls = polls + 1 if behind == last else 0
            last = behind
            if behind > 0 and polls > _STALLED_POLLS:
                return True
            time.sleep(_POLL_SECONDS)

    def _delivered(
        self, store: JavaObject, key: tuple[str, int], offsets: tuple[int, int], expected: int
    ) -> int:
        count = self._pulled(store, key, offsets, empties=True)
        return count if count == expected else self._pulled(store, key, offsets, empties=False)

    def _pulled(
        self, store: JavaObject, key: tuple[str, int], offsets: tuple[int, int], *, empties: bool
    ) -> int:
        """Count what a consumer gets who pulls from the minimum to the end, or to an error."""
        position, maximum = offsets
        count = 0
        while position < maximum:
            try:
                answer = store.getMessage("oracle", *key, position, _PULLED, None)
            except Py4JJavaError:  # the same each time that he asks
                return count
            with self._borrowed(answer) as result:
                count += int(result.getMessageCount())
                if not empties:
                    count -= self._empty(result)
                following = int(result.getNextBeginOffset())
                result.release()
            if following <= position:
                return count
            position = following
        return count

    def _empty(self, result: JavaObject) -> int:
        with self._borrowed(result.getMessageBufferList()) as buffers:
            return sum(not buffer.remaining() for buffer in buffers)

    def stop(self, store: JavaObject) -> None:
        """Stop a store in the background, and let it go."""

        def stop() -> None:
            store.shutdown()
            self.jvm.gateway.detach(store)  # nothing is let go otherwise

        _Background(stop)


def index_entries(path: Path) -> int:
    """Read off an index file's header how many entries it has; it begins to count at 1."""
    with path.open("rb") as file:
        header = file.read(INDEX_HEADER.size).ljust(INDEX_HEADER.size, b"\0")
    return max(int(INDEX_HEADER.unpack(header)[-1]), 1) - 1


def files_of(root: Path) -> dict[str, set[str]]:
    """Give the files of a store by the directory of the root in which they lie."""
    found: dict[str, set[str]] = {}
    for path in root.rglob("*"):
        if path.is_file():
            name = path.relative_to(root).as_posix()
            found.setdefault(name.partition("/")[0], set()).add(name)
    return found


class _Background:
    """A call that goes on while others are made."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._error: Py4JJavaError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended; what Java threw is raised here."""
        if self._error is not None:
            raise self._error
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._call()
        except Py4JJavaError as error:
            self._error = error
        except Py4JError:  # the process has been ended
            pass
