"""There is a transcript of each command for all that can happen to a person who types it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from rmqtool.cli.commands import NAMES
from tests.cli.test_manual import EXAMPLES, STORES, _as_it_is

TRANSCRIPTS: Final = Path(__file__).parent / "transcripts"
COMMAND: Final = re.compile(r"^\$ (?:.* )?rmqtool ([a-z-]+)(.*)$")
NOT_THERE: Final = re.compile(r"not found|[Nn]o such|nothing found|\bno (topic|page|record)\b")
KINDS: Final = ("help", "success", "damage", "not found", "bad input")
# These open no store.
NEVER = {("help", "damage")} | {
    (name, kind) for name in ("completion", "warm-up") for kind in ("damage", "not found")
}
# Its screens, of sound stores and of damaged ones, are in tests/browse.
NEVER |= {("browse", "success"), ("browse", "damage")}


class Ran(NamedTuple):
    """One command of a transcript.

    Attributes:
        command: its name.
        words: what follows.
        is_damaged: the store is.
        said: on both streams.
        code: exit code.
    """

    command: str
    words: str
    is_damaged: bool
    said: str
    code: int

    @property
    def kinds(self) -> Iterator[str]:
        """What it shows."""
        if "--help" in self.words:
            yield "help"
        elif self.is_damaged:
            yield "damage"
        elif self.code == 0:
            yield "success"
        if self.code in {1, 2} and NOT_THERE.search(self.said):
            yield "not found"
        if self.code == 2 and f"rmqtool {self.command} --help" in self.said:
            yield "bad input"


def ran(path: Path) -> Iterator[Ran]:
    """Give what a transcript ran."""
    text = path.read_text(encoding="utf-8")
    head = text.partition("\n")[0]
    is_example = path.parent == EXAMPLES
    for block in re.split(r"^(?=\$ )", text, flags=re.MULTILINE)[1:]:
        match = COMMAND.match(block.partition("\n")[0])
        code = re.search(r"^exit: (\d+)$", block, re.MULTILINE)
        if match is None or code is None:
            continue
        named = STORES.keys() & set(re.split(r"[ /]", match[2]))
        hurt = any(STORES[name][1] is not _as_it_is for name in named)
        is_damaged = hurt if is_example else len(head.split()) > 2
        yield Ran(match[1], match[2], is_damaged, block, int(code[1]))


SHOWN: Final = {
    (one.command, kind)
    for path in [*TRANSCRIPTS.glob("*.txt"), *EXAMPLES.glob("*.txt")]
    for one in ran(path)
    for kind in one.kinds
}


def test_shown() -> None:
    """Help, success, damage, what is not found, bad input: each command, each of them."""
    missing = {*product(NAMES, KINDS)} - NEVER - SHOWN
    assert set() == missing, f"add them to {TRANSCRIPTS}"
