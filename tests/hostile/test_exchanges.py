"""While root works on a stranger's store with RocksDB, names are exchanged: nothing gets out."""

from __future__ import annotations

import os
import sys
from typing import Final

import pytest

from tests.hostile.exchanges import WAYS, tried

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can show what root does")
TRIES: Final = 2  # more of them: `exchanges`
MOST_TRIES: Final = 10  # until names were exchanged while a command ran
# Each does by paths what the library would do.
READER: Final = """
import sys, time
from contextlib import suppress
from pathlib import Path
end = time.monotonic() + 10
while time.monotonic() < end:
    for path in Path(sys.argv[2], "consumequeue").glob("*"):
        with suppress(OSError):
            sys.stdout.buffer.write(path.read_bytes())
"""
WRITER: Final = """
import sys, time
from contextlib import suppress
from pathlib import Path
aside = Path(sys.argv[2], "rmqtool-discard-1", "aside")
aside.mkdir(parents=True)
end = time.monotonic() + 10
while time.monotonic() < end:
    with suppress(OSError):
        (aside / "0001" / "MANIFEST-000001").write_text("written")
"""


@pytest.mark.parametrize("way", WAYS)
def test_nothing_gets_out(way: str) -> None:
    """Nothing outside changes, and nothing of it is said, though names were exchanged."""
    count = 0
    for number in range(MOST_TRIES):
        if number >= TRIES and count:
            break
        found = tried(way)
        assert "" == found.wrong
        count += found.exchanges
    assert count


@pytest.mark.parametrize(
    ("way", "program"),
    [("directory", READER), ("files", READER), ("repair", WRITER), ("linked", WRITER)],
)
def test_notices(way: str, program: str) -> None:
    """Whoever looks names up by their paths is caught by the same attack."""
    assert tried(way, (sys.executable, "-c", program)).wrong
