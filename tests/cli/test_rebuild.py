"""`rebuild`, `rebuild-cq`, `rebuild-index`: rows, remarks and exit codes, as transcripts.

`pytest --update-golden` rewrites tests/cli/transcripts/rebuild*.txt; their diff is the review.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import inflict
from tests.cli.run import rmqtool
from tests.stores import broker_conf, fixture_store

TRANSCRIPTS = Path(__file__).parent / "transcripts"
NAME = "rocketmq-5.3.3-lmq"
_CHANGING = (
    (re.compile(r"in [0-9.]+ s \([0-9.]+ s of it"), "in TIME s (TIME s of it"),
    (re.compile(r"\S*/(store|new)\b"), r"\1"),
)

Prepare = Callable[[Path], object]


def nothing(store: Path) -> None:
    """Leave a store as it is."""


def lose_queues(store: Path) -> None:
    """Do what is usually advised: delete the queues and the index."""
    shutil.rmtree(store / "consumequeue")
    shutil.rmtree(store / "index")


def flip_unit(store: Path) -> None:
    """Flip a bit of a unit."""
    inflict.flip_bits(store / "consumequeue/lmq-parent/1/00000000000000000000", 5, 1)


CASES: dict[str, tuple[Prepare, int, str]] = {
    "rebuild-check": (nothing, 0, "rebuild STORE --check"),
    "rebuild-check-differs": (flip_unit, 1, "rebuild STORE --check --format table"),
    "rebuild-assumed": (lose_queues, 0, "rebuild STORE --dry-run --format table"),
    "rebuild-cq": (nothing, 0, "rebuild-cq STORE --output NEW --format table"),
    "rebuild-cq-topic": (nothing, 0, "rebuild-cq STORE --topic lmq-parent --queue 1 --dry-run"),
    "rebuild-cq-damage": (inflict.garbage(), 3, "rebuild-cq STORE --dry-run --format table"),
    "rebuild-index": (nothing, 0, "rebuild-index STORE --output NEW --format csv"),
    "rebuild-usage": (nothing, 2, "rebuild STORE --check --dry-run"),
}


@pytest.mark.parametrize(("case", "facts"), CASES.items(), ids=CASES)
def test_transcript(
    case: str, facts: tuple[Prepare, int, str], tmp_path: Path, *, update_golden: bool
) -> None:
    """What a command says, on both streams, and how it ends."""
    prepare, code, line = facts
    store = fixture_store(NAME, tmp_path)
    prepare(store)
    places = {"STORE": store, "NEW": tmp_path / "new"}
    run = rmqtool(*(places.get(word, word) for word in line.split()))
    said = "".join(f"stderr: {one}\n" for one in run.err.splitlines())
    found = f"$ rmqtool {line}\n{run.out.decode()}{said}exit: {run.code}\n"
    for pattern, text in _CHANGING:
        found = pattern.sub(text, found)
    golden = TRANSCRIPTS / f"{case}.txt"
    if update_golden:
        golden.write_text(found, encoding="utf-8")
    assert (golden.read_text(encoding="utf-8"), code) == (found, run.code)


def test_in_place_then_check(tmp_path: Path) -> None:
    """Lost files come back in place; a comparison afterwards finds nothing."""
    store = fixture_store(NAME, tmp_path)
    lose_queues(store)
    conf = ("--broker-conf", broker_conf(NAME))
    assert 1 == rmqtool("rebuild", store, "--check", *conf).code
    run = rmqtool("rebuild", store, "--in-place", "--format", "json", *conf)
    assert (0, 6) == (run.code, len(json.loads(run.out)))
    assert "takes it back" in run.err
    assert 0 == rmqtool("rebuild", store, "--check", *conf).code


@pytest.mark.parametrize("command", ["rebuild", "rebuild-cq", "rebuild-index"])
def test_no_log(tmp_path: Path, command: str) -> None:
    """Without a commitlog there is nothing to rebuild from: what, and what to try; exit 2."""
    (tmp_path / "consumequeue").mkdir()
    run = rmqtool(command, tmp_path, "--dry-run")
    assert (2, b"", 2) == (run.code, run.out, len(run.err.splitlines()))
