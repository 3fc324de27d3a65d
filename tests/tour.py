"""The broken store of the README's tour: `python -m tests.tour` writes fixtures/tour/store anew.

A real broker wrote it. Then a disk lost a sector in the middle of the log, and somebody deleted
the files of a queue, in the belief that the broker makes them anew.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests import inflict
from tests.stores import FIXTURES, fixture_store

SOURCE: Final = "rocketmq-4.9.3-traffic"
TOUR: Final = FIXTURES / "tour" / "store"
HURT: Final = inflict.together(
    [inflict.zero_sector(where=0.4), inflict.remove("consumequeue/traffic-orders/2/*")]
)


def make(into: Path) -> Path:
    """Make the store in a directory; return its root."""
    store = fixture_store(SOURCE, into)
    HURT(store)
    (store / "consumequeue" / "traffic-orders" / "2").rmdir()  # git keeps no empty directories
    return store


def main() -> None:
    """Write the committed store anew."""
    shutil.rmtree(TOUR, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(make(Path(place)), TOUR, copy_function=shutil.copyfile)


if __name__ == "__main__":
    main()
