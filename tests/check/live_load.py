"""Clients that keep a broker at work while commands read its store, and what a send took.

Plain, delayed and transactional messages are sent. A consumer takes them and refuses some, so that
they are retried. The broker is asked to delete expired files. Topics are created, written to, and
deleted with their queues by an admin client.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError

from tests.broker.broker import Broker
from tests.broker.client import Admin
from tests.broker.consumer import PushConsumer
from tests.broker.message import Outgoing, Received, Sent
from tests.broker.producer import Producer, TransactionProducer

TOPIC: Final = "in-flight"
GROUP: Final = "taking"
QUEUES: Final = 4
EXPIRE_SECONDS: Final = 20
PASSING: Final = "passing"  # before the number of a topic that is deleted
LIVING: Final = 3  # of them at a time
WRITTEN: Final = 220  # messages of each: some files of each of its queues
FEW: Final = 100  # sends: too few for a percentile


class Load:
    """The clients, each in a thread of its own.

    Attributes:
        acknowledged: messages of the plain producers that were not delayed, in no strict order.
        beside: what runs on the store, as sends are told apart; empty for nothing.
        expires: whether the broker is asked to delete.
        count: messages that were sent.
        failed: of them, those of which the client does not know whether they were stored.
        passed: topics that were created, written to and deleted.
        errors: what broke.
    """

    def __init__(self, broker: Broker, pause: float) -> None:
        self.acknowledged: list[Sent] = []
        self.beside, self.expires = "nothing", True
        self.count = self.failed = self.passed = 0
        self.errors: list[str] = []
        self._taken: defaultdict[str, list[float]] = defaultdict(list)  # ms
        self._broker, self._ended = broker, threading.Event()
        self._pause = pause  # s, of each producer between two messages

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the broker at work while the block runs."""
        works = [lambda: self._plain(0), lambda: self._plain(1), self._transactions, self._expire]
        threads = [
            threading.Thread(target=self._guarded, args=(work,)) for work in (*works, self._topics)
        ]
        with PushConsumer(self._broker, GROUP, TOPIC, refuse=_is_refused):
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                self._ended.set()
                for thread in threads:
                    thread.join()

    def latencies(self) -> Iterator[str]:
        """Yield a line for each thing that sends went on beside of."""
        for beside, taken in sorted(self._taken.items()):
            if len(taken) < FEW:
                yield f"sends beside {beside}: {len(taken)}"
                continue
            cuts = statistics.quantiles(taken, n=100)
            figures = f"median {cuts[49]:.2f}, p90 {cuts[89]:.2f}, p99 {cuts[98]:.2f}"
            yield f"sends beside {beside}: {len(taken):,}, ms: {figures}"

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - told at the end
            self.errors.append(f"{error}"[-1500:])

    def _plain(self, which: int) -> None:
        with Producer(self._broker, f"producer-{which}") as producer:
            while not self._ended.wait(self._pause):
                self.count += 1
                number = self.count
                body = bytes([number % 251]) * (number * 37 % 1500 + 1)
                keys = (f"KEY-{which}-{number}", "all")
                level = number // 50 % 2 + 1 if number % 50 == 0 else 0
                message = Outgoing(TOPIC, body, tags="TagA", keys=keys, delay_level=level)
                beside, began = self.beside, time.perf_counter()
                try:
                    sent = producer.send(message, number % QUEUES)
                except Py4JJavaError:  # on a busy machine a client gives up waiting
                    self.failed += 1
                    continue
                if beside == self.beside:  # else it began beside one thing and ended beside another
                    self._taken[beside].append((time.perf_counter() - began) * 1000)
                if not level:
                    self.acknowledged.append(sent)

    def _transactions(self) -> None:
        with TransactionProducer(self._broker, "deciding") as producer:
            number = 0
            while not self._ended.wait(0.05):
                number += 1
                outcome = ("committed", "rolled-back", "undecided")[number % 3]
                try:
                    producer.send(Outgoing(TOPIC, b"x" * 50, keys=(f"T-{number}",)), outcome)
                except Py4JJavaError:
                    self.failed += 1

    def _topics(self) -> None:
        """Create topics, write to them, and have the broker delete the oldest, without a pause."""
        living: list[str] = []
        with Admin(self._broker) as admin, Producer(self._broker, "for-a-while") as producer:
            while not self._ended.is_set():
                topic = f"{PASSING}-{self.passed + len(living)}"
                self._broker.create_topic(topic, QUEUES)
                living.append(topic)
                for number in range(WRITTEN):
                    message = Outgoing(topic, bytes(number), keys=(f"{topic}-{number}",))
                    try:
                        producer.send(message, number % QUEUES)
                    except Py4JJavaError:
                        self.failed += 1
                if len(living) == LIVING:
                    admin.delete_topic(living.pop(0))
                    self.passed += 1

    def _expire(self) -> None:
        while not self._ended.wait(EXPIRE_SECONDS):
            if self.expires:
                self._broker.store.executeDeleteFilesManually()


def _is_refused(received: Received) -> bool:
    return sum(received.body[:8]) % 97 == 0
