"""Whatever the files hold, a validation ends, and says what it says in findings."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pytest

from rmqtool.check.options import CheckLevel
from rmqtool.findings.registry import CODES
from tests.check.validation import run
from tests.stores import broker_conf

SMALL: Final = (
    "rocketmq-4.9.3-ext",
    "rocketmq-4.9.3-lmq",
    "rocketmq-5.3.3-dledger",
    "rocketmq-5.3.3-property-crc",
    "rocketmq-5.5.0-batch-queue",
    "rocketmq-5.5.0-expired",
    "rocketmq-5.5.0-ipv6",
    "rocketmq-5.5.0-timer",
)
ROUNDS: Final = 40  # of each store
ROUNDS_OF_ALL: Final = 300
HOSTILE: Final = (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0, 1, 0x7FFFFFF0, 91, 0x00FFFFFF)
REACH: Final = 1 << 16  # most files hold their data at their begin


T = TypeVar("T")


class Dice:
    """A seeded generator: each run of the tests does the same."""

    def __init__(self, seed: str) -> None:
        self._chance = np.random.default_rng(zlib.crc32(seed.encode()))

    def below(self, limit: int) -> int:
        """Give a number of [0, limit); 0 where that is empty."""
        return int(self._chance.integers(max(limit, 1)))

    def choice(self, items: Sequence[T]) -> T:
        """Give one of some."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Give some of many, none of them twice."""
        count = min(count, len(items))
        return [items[number] for number in self._chance.permutation(len(items))[:count]]

    def bytes(self, count: int) -> bytes:
        """Give noise."""
        return self._chance.bytes(count)


def _flip(raw: bytearray, dice: Dice) -> None:
    for _ in range(dice.choice((1, 3, 50))):
        raw[_at(raw, dice)] ^= 1 << dice.below(8)


def _zero(raw: bytearray, dice: Dice) -> None:
    begin, length = _at(raw, dice), dice.choice((4, 20, 512, 4096))
    raw[begin : begin + length] = bytes(len(raw[begin : begin + length]))


def _noise(raw: bytearray, dice: Dice) -> None:
    begin, length = _at(raw, dice), dice.choice((4, 20, 512, 4096))
    raw[begin : begin + length] = dice.bytes(len(raw[begin : begin + length]))


def _hostile(raw: bytearray, dice: Dice) -> None:
    for _ in range(dice.choice((1, 8, 64))):
        begin, size = _at(raw, dice), dice.choice((1, 2, 4, 8))
        value = dice.choice(HOSTILE) << 8 * (size - 4) if size > 4 else dice.choice(HOSTILE)
        value &= (1 << 8 * size) - 1
        raw[begin : begin + size] = value.to_bytes(size, "big")[: len(raw[begin : begin + size])]


def _cut(raw: bytearray, dice: Dice) -> None:
    del raw[_at(raw, dice) :]


def _grow(raw: bytearray, dice: Dice) -> None:
    raw += dice.bytes(dice.choice((1, 7, 4096)))


def _shift(raw: bytearray, dice: Dice) -> None:
    begin = _at(raw, dice)
    raw[begin:begin] = dice.bytes(dice.choice((1, 4, 20)))


def _repeat(raw: bytearray, dice: Dice) -> None:
    """Copy a stretch to another place of the file."""
    source, target, length = _at(raw, dice), _at(raw, dice), dice.choice((20, 300, 5000))
    raw[target : target + length] = raw[source : source + length]


def _replace(raw: bytearray, dice: Dice) -> None:
    raw[:] = dice.bytes(dice.choice((0, 1, 40, 4096, len(raw) & 0xFFFFF)))


def _at(raw: bytearray, dice: Dice) -> int:
    return dice.below(min(len(raw), dice.choice((64, REACH, len(raw)))))


HARMS: Final = (_flip, _zero, _noise, _hostile, _cut, _grow, _shift, _repeat, _replace)


def _harm(path: Path, dice: Dice) -> str:
    """Damage one file; give the name of how."""
    if path.stat().st_size > 8 << 20:  # the wheel and DLedger's index: 38 and 160 MB, mostly holes
        with path.open("r+b") as file:
            raw = bytearray(file.read(REACH))
            _hostile(raw, dice)
            file.seek(0)
            file.write(raw)
        return "large"
    raw = bytearray(path.read_bytes())
    way = dice.choice(HARMS)
    if raw or way in {_grow, _replace}:
        way(raw, dice)
    path.write_bytes(raw)
    return way.__name__


def _mix_up(files: list[Path], dice: Dice) -> None:
    """Rename, copy or delete a file, as people do."""
    path = dice.choice(files)
    if path.stat().st_size > 8 << 20:
        return
    other = path.with_name(dice.choice(("0", "x", "9" * 20, f"{dice.below(1 << 62):020}", "١٢")))
    match dice.below(3):
        case 0:
            path.rename(other)
        case 1:
            shutil.copy(path, other)
        case _:
            path.unlink()


@pytest.mark.parametrize("name", SMALL)
def test_fuzzed_store(
    name: str, copy_of: Callable[[str], Path], pytestconfig: pytest.Config
) -> None:
    """No exception, no hang, and every finding is one of the catalogue, at every level."""
    everything = pytestconfig.getoption("--all-variants")
    dice = Dice(name)
    for number in range(ROUNDS_OF_ALL if everything else ROUNDS):
        store = copy_of(name)
        files = sorted(path for path in store.rglob("*") if path.is_file())
        done = [_harm(path, dice) for path in dice.sample(files, dice.choice((1, 2, 5)))]
        if dice.below(5) == 0:
            _mix_up(files, dice)
        conf = dice.choice((None, broker_conf(name)))
        findings, exit_code, summary = run(store, dice.choice([*CheckLevel]), conf)
        context = f"round {number}: {done}"
        assert {finding.code for finding in findings} <= CODES.keys(), context
        assert exit_code in {0, 1, 3}, context
        assert summary.is_finished, context
        shutil.rmtree(store)
