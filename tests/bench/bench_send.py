"""`send` with a window, beside one message at a time and beside a loop of RocketMQ's own client.

    python -m tests.bench.bench_send [--messages 40000] [--queues 160] [--rounds 3] [4.9.3 5.5.0]

A real broker of each release, in its own process, on the same processors: so on a small machine
sender and broker take them from each other. The file has as many messages in turns of the queues;
each contestant sends all of them, in turns, to the same topic. Whole processes: `send` reads its
file twice, the client's loop makes its messages. The loop is the plain one, `producer.send(message,
queue)` in one thread, which keeps the order of a queue as `send` does.

Rates are messages a second by the clock. Ratios within one run say more: the machine need not be
quiet for them. That nothing is missing is asked of the broker afterwards; that the order of each
queue stays is tested (`tests/sending/test_broker.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench.bench_validate import RMQTOOL
from tests.broker.broker import Broker, running_broker
from tests.broker.jars import jar_directory

# ruff: noqa: T201 - a benchmark prints
BODY: Final = "x" * 300  # with header, topic and properties a record of some 470 bytes
SETTINGS: Final = {
    "mappedFileSizeCommitLog": 1 << 28,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "messageIndexEnable": True,
}
# With all its optimisations: a broker that someone moves messages into.
OPTIONS: Final = ("-Xmx2g", "-XX:TieredStopAtLevel=4", "-XX:MaxDirectMemorySize=1g")
LEAST: Final = 2.0  # times the rate of one message at a time
LOOP: Final = """
import java.util.ArrayList;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.*;

public class Loop {
    public static void main(String[] words) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("loop");
        producer.setNamesrvAddr(words[0]);
        producer.start();
        ArrayList<MessageQueue> queues =
            new ArrayList<>(producer.fetchPublishMessageQueues("orders"));
        int count = Integer.parseInt(words[1]);
        byte[] body = words[2].getBytes();
        long began = System.nanoTime();
        for (int number = 0; number < count; number++) {
            Message message = new Message("orders", "T", "K-" + number, body);
            producer.send(message, queues.get(number % queues.size()), 60000);
        }
        System.out.println("took " + (System.nanoTime() - began) / 1e9);
        System.exit(0);
    }
}
"""


def lines(path: Path, count: int, queues: int) -> Path:
    """Write messages as `extract` does."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            line = {
                "topic": "orders", "queue_id": number % queues, "body": BODY, "flag": number,
                "properties": {"KEYS": f"K-{number}", "TAGS": "T", "UNIQ_KEY": f"{number:032X}"},
                "message_id": f"{number:032X}", "born_time": "2026-11-22T14:36:28.915Z",
            }  # fmt: skip
            file.write(json.dumps(line) + "\n")
    return path


def seconds(*command: str) -> float:
    """Run a process and give what it takes."""
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - fixed arguments
    return time.monotonic() - began


def contestants(
    version: str, broker: Broker, file: Path, count: int
) -> dict[str, Callable[[], float]]:
    """Give everything that is measured, by name."""
    source = file.with_name("Loop.java")
    source.write_text(LOOP, encoding="utf-8")
    jars = f"{jar_directory(version)}/*"

    def send(window: int) -> Callable[[], float]:
        def run() -> float:
            Path(f"{file}.sent").unlink(missing_ok=True)
            words = ("send", str(file), "-n", broker.names.address, "--window", str(window))
            return seconds(*RMQTOOL, *words, "--quiet")

        return run

    def loop() -> float:
        words = ("java", "-cp", jars, str(source), broker.names.address, str(count), BODY)
        done = subprocess.run(words, check=True, capture_output=True, text=True)  # noqa: S603 - fixed
        return float(done.stdout.rpartition("took ")[2])

    windows = {f"send, window {window}": send(window) for window in (1, 8, 64, 256)}
    return {**windows, "client's loop": loop}


def measure(version: str, count: int, queues: int, rounds: int) -> bool:
    """Measure with one broker, and print."""
    with tempfile.TemporaryDirectory() as name:
        file = lines(Path(name) / "f.jsonl", count, queues)
        with running_broker(version, Path(name) / "home", SETTINGS, options=OPTIONS) as broker:
            broker.create_topic("orders", queues)
            runs = contestants(version, broker, file, count)
            taken: dict[str, list[float]] = {key: [] for key in runs}
            for _ in range(rounds + 1):  # the first one compiles
                for key, run in runs.items():
                    taken[key].append(run())
                    print(f"{key}: {taken[key][-1]:.2f} s", file=sys.stderr, flush=True)
            total = sum(broker_total(broker, queue_id) for queue_id in range(queues))
            assert total == count * len(runs) * (rounds + 1), total
    figures = {key: statistics.median(values[1:]) for key, values in taken.items()}
    slow = figures["send, window 1"]
    print(f"{version}, {count:,} messages in {queues} queues, load {os.getloadavg()[0]:.1f}")
    for key, figure in figures.items():
        print(f"  {key:<18}{count / figure:>9,.0f} a second, {slow / figure:.2f} times window 1")
    return slow / figures["send, window 64"] >= LEAST


def broker_total(broker: Broker, queue_id: int) -> int:
    """Give how many messages a queue has."""
    return int(broker.store.getMaxOffsetInQueue("orders", queue_id))


def main() -> int:
    """Measure and print; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=["4.9.3", "5.5.0"])
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--queues", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    are_fine = [
        measure(version, asked.messages, asked.queues, asked.rounds) for version in asked.versions
    ]
    return 0 if all(are_fine) else 1


if __name__ == "__main__":
    sys.exit(main())
