"""Start a broker and stop it, so that Java writes an archive of its classes.

python -m tests.broker.run_once VERSION ARCHIVE DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.broker.broker import running_broker
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.class_archive import writing


def run_once(version: str, new: Path, home: Path) -> None:
    """Send a message, stop, and wait until Java has ended."""
    with running_broker(version, home, options=writing(new)) as broker:
        broker.create_topic("archived", 1)
        with Producer(broker, "archiving") as producer:
            producer.send(Outgoing("archived", b"body"))
        broker.stop()
        broker.jvm.exit()


if __name__ == "__main__":
    run_once(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3], "home"))
