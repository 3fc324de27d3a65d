"""Results that tasks put down: whole or not at all, the same as they were, usable by kernels."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmqtool.writing.task_results import NOTHING, Spool


def test_round_trip(tmp_path: Path) -> None:
    """What is taken is what was put, once; arrays are writable and aligned, for kernels."""
    spool = Spool(str(tmp_path / "0"))
    arrays = [np.arange(n, dtype=kind) for n in (0, 1, 7, 1000) for kind in ("u1", "i4", "i8")]
    given: Any = {"arrays": arrays, "text": "é", "bytes": b"\0" * 99, "none": None}
    assert spool.put(3, 1, given)
    assert NOTHING is spool.take(3, 0)[0]
    found, size = spool.take(3, 1)
    assert sum(one.nbytes for one in arrays) < size
    for expected, one in zip(arrays, found.pop("arrays"), strict=True):
        assert expected.tolist() == one.tolist()
        assert (expected.dtype, True) == (one.dtype, one.flags.writeable and one.flags.aligned)
    del given["arrays"]
    assert given == found
    assert [] == list(tmp_path.iterdir())
    assert NOTHING is spool.take(3, 1)[0]


def test_none_is_a_result(tmp_path: Path) -> None:
    """None can be put; that nothing is there is something else."""
    spool = Spool(str(tmp_path / "0"))
    assert spool.put(0, 0, None)
    assert spool.take(0, 0)[0] is None


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that cannot be written leaves nothing behind, and that is said."""
    spool = Spool(str(tmp_path / "0"))
    assert not Spool(str(tmp_path / "none" / "0")).put(0, 0, 1)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    assert not spool.put(0, 0, b"x" * 100_000)
    assert [] == list(tmp_path.iterdir())
