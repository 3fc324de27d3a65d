"""The lives of a broker whose log a stream follows: killed, robbed of its last pages, expired."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError

from tests.broker.broker import SMALL_GEOMETRY, Broker, running_broker
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.spark.stream_log import KeptLog

TOPIC: Final = "followed"
QUEUES: Final = 4
PAUSE: Final = 0.04  # seconds after each message of a producer: a file fills in some seconds
BATCH_EVERY, DELAY_EVERY = 20, 30
LAST_FILE_ONLY: Final = (0, 0, 1000, True)  # age, pauses and patience in ms; all that may go


class Lives:
    """A broker on one home directory, started again after each kill, and always sent to.

    Args:
        version: of RocketMQ.
        home: of the broker.
        kept: directory for links to its files.

    Attributes:
        log: its files, and all records that were ever in them.
        acknowledged: physical offsets of what producers were told is stored.
        errors: of producers, other than that their broker was killed.
    """

    def __init__(self, version: str, home: Path, kept: Path) -> None:
        self.version, self.home = version, home
        (home / "store" / "commitlog").mkdir(parents=True)
        self.log = KeptLog(home / "store" / "commitlog", kept)
        self.acknowledged: dict[str, int] = {}
        self.errors: list[str] = []
        self._running = ExitStack()
        self._broker: Broker | None = None
        self._ended = threading.Event()

    @property
    def store(self) -> Path:
        """The store root."""
        return self.home / "store"

    @property
    def is_running(self) -> bool:
        """Whether the broker runs."""
        return self._broker is not None

    @property
    def broker(self) -> Broker:
        """The broker that runs.

        Raises:
            RuntimeError: none does.
        """
        if self._broker is None:
            raise RuntimeError(self.home)
        return self._broker

    def start(self) -> None:
        """Start the broker, and what sends to it."""
        self._ended = threading.Event()
        self._broker = self._running.enter_context(
            running_broker(self.version, self.home, {**SMALL_GEOMETRY, "fileReservedTime": 0})
        )
        self.log.recovered()
        self.broker.create_topic(TOPIC, QUEUES)
        for which in range(2):
            arguments = (self.broker, which, self._ended)
            self._running.callback(self._thread(arguments).join)

    def _thread(self, arguments: tuple[Broker, int, threading.Event]) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=arguments)
        thread.start()
        return thread

    def _guarded(self, broker: Broker, which: int, ended: threading.Event) -> None:
        try:
            with Producer(broker, f"producer-{which}") as producer:
                self._send(producer, which, ended)
        except (Py4JError, OSError) as error:
            if not ended.is_set():
                self.errors.append(repr(error)[:300])

    def _send(self, producer: Producer, which: int, ended: threading.Event) -> None:
        number = 0
        while not ended.wait(PAUSE):
            number += 1
            body = bytes([number % 251]) * (number * 37 % 600 + 1)
            keys = (f"KEY-{which}-{number}",)
            if number % BATCH_EVERY == 0:
                some = [Outgoing(TOPIC, body[:50], keys=keys)] * 5
                sent = producer.send_batch(some, number % QUEUES)[-1:]
            else:
                level = 1 if number % DELAY_EVERY == 1 else 0
                message = Outgoing(TOPIC, body, tags="TagA", keys=keys, delay_level=level)
                sent = [producer.send(message, number % QUEUES)]
            for one in sent:
                self.acknowledged[str(one.unique_key)] = one.physical_offset

    def kill(self) -> None:
        """Kill it, and take note of the records of its log."""
        self._ended.set()
        self.broker.crash()
        self._close()

    def stop(self) -> None:
        """Stop it in order."""
        self._ended.set()
        self._close()

    def _close(self) -> None:
        with suppress(Py4JError, OSError):
            self._running.close()
        self._running, self._broker = ExitStack(), None
        self.log.take()

    def expire(self) -> int:
        """Let all files but the last ones expire; give how many did."""
        commitlog = self.broker.store.getCommitLog()
        count = 0
        while True:
            self.log.keep()
            more = int(commitlog.deleteExpiredFile(*LAST_FILE_ONLY))
            count += more
            if not more:
                return count

    def wait_written(self, past: int, seconds: float) -> None:
        """Wait until the log reaches a physical offset, for some time at most."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.log.end() < past:
            time.sleep(0.2)
