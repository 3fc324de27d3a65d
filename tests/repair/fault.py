"""One fault of a list: what is done to which fixture, and what a repair has to make of it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.repair.broker.survivors import QueueKey, Truth
from tests.repair.harms import Inflict
from tests.stores import fixture_store


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: of it.
        fixture: whose copy it is done to.
        harms: what is done, one after the other.
        is_killed: whether the broker was killed.
        release: of the broker that is to run; None is the store's own.
        back: file that is put back as it was once the repair is done; empty for none.
        is_proven: whether a real store judges it, too, where only a sample is run.
        is_undone: whether the repair makes each record what it was.
    """

    name: str
    fixture: str
    harms: tuple[Inflict, ...]
    is_killed: bool = False
    release: str | None = None
    back: str = ""
    is_proven: bool = False
    is_undone: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def version(self) -> str:
        """Release of the broker that is to run."""
        return self.release or self.fixture.split("-")[1]

    def inflict(self, root: Path) -> None:
        """Do it to a copy of the fixture."""
        for harm in self.harms:
            harm(root)
        if self.is_killed:
            (root / "abort").touch()

    def put_back(self, root: Path) -> None:
        """Put a file back, as a person would who has a backup of it."""
        if self.back:
            with tempfile.TemporaryDirectory() as place:
                shutil.copy(fixture_store(self.fixture, Path(place)) / self.back, root / self.back)

    def expected(self, truth: Truth, root: Path) -> dict[QueueKey, list[int]]:
        """Give what each queue of the damaged store has to deliver once it is repaired."""
        return truth.of_queues({*truth.records}) if self.is_undone else truth.expected(root)
