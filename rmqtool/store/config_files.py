"""The broker's JSON files, with the fallback to `.bak` that the broker itself has.

Source: ConfigManager#load, #loadBak, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.budget import OverBudget
from rmqtool.errors import DecodeError, Trouble, UnreadablePath
from rmqtool.formats.config import BYTES_A_STEP
from rmqtool.formats.config_names import (
    DELAYS_JSON,
    FILTERS_JSON,
    GROUPS_JSON,
    LIGHT_OFFSETS_JSON,
    MAPPINGS_JSON,
    MODES_JSON,
    OFFSETS_JSON,
    ORDERS_JSON,
    TOPICS_JSON,
)
from rmqtool.formats.config_shapes import parse_file
from rmqtool.store.entry import EntryKind

if TYPE_CHECKING:
    from rmqtool.budget import ParseBudget
    from rmqtool.store.place import Place

BACKUP = ".bak"
TEMPORARY = ".tmp"  # a broker writes it first; it counts for nothing when it stays
# Seconds before what cannot be parsed is read again while a broker runs, for all files together: it
# empties them before it writes them, and may wait for the disk, or a processor, in between.
PAUSES: Final = (0.05,) * 100
LARGEST_CONFIG = 1 << 25  # see formats/config.py: of a dense file fewer bytes are parsed
# JSON without the extension; compaction/position-checkpoint is one more.
METRICS = {"timermetrics", "transactionMetrics"}
# What a broker loads before it starts, and refuses to start without.
NEEDED: Final = (
    TOPICS_JSON,
    OFFSETS_JSON,
    GROUPS_JSON,
    FILTERS_JSON,
    DELAYS_JSON,
)
NEEDED_BY_5: Final = (MAPPINGS_JSON, ORDERS_JSON)
# What it loads as well, where it is there.
CLIENT_OFFSETS: Final = "offsets.json"  # of a broadcast client, in a directory of its own
CONFIG_NAMES: Final = (*NEEDED, *NEEDED_BY_5, LIGHT_OFFSETS_JSON, MODES_JSON)


class Fault(enum.Enum):
    """Why a file is not taken."""

    EMPTY = enum.auto()  # no byte: to brokers it is not there
    BLANK = enum.auto()  # white space: nothing to brokers before 5.4.0, an error to later ones
    BROKEN = enum.auto()  # no JSON, no file, or not readable


class Problem(NamedTuple):
    """A file that is not taken."""

    path: str  # relative to the store root
    fault: Fault  # why not
    says: str  # one sentence, with the path


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """What one configuration file says."""

    name: str  # of the file, without `.bak`
    path: str  # the file that was taken, relative to the store root; empty when none could be
    document: dict[str, Any] = field(repr=False)  # its content; empty when no file could be taken
    is_backup: bool  # the `.bak` was taken, as the broker would do
    problems: tuple[Problem, ...]  # why a file was not taken

    def __bool__(self) -> bool:
        return bool(self.path)

    def stops_broker(self, *, blank_stops: bool = True) -> Problem | None:
        """Give the `.bak` that stops a broker: it is needed, and cannot be parsed either.

        Without a `.bak`, or with an empty one, brokers start as if there had never been a file.
        Source: ConfigManager#loadBak; observed, 4.9.3, 5.3.3 and 5.5.0.

        Args:
            blank_stops: white space is an error to the broker.
        """
        for problem in () if self else self.problems:
            if problem.fault is Fault.BLANK and not blank_stops:
                return None  # it is taken for no configuration
            if problem.path.endswith(BACKUP) and problem.fault is not Fault.EMPTY:
                return problem
        return None


def read_config(
    place: Place,
    path: str,
    pauses: list[float] | None = None,
    budget: ParseBudget | None = None,
) -> ConfigDocument:
    """Read a configuration file; the `.bak` where it is missing, empty or cannot be parsed.

    Nothing raises: a broker without the file takes its defaults, and says nothing.

    Args:
        place: of the file; it need not exist.
        path: the same relative to the store root.
        pauses: seconds to wait before what cannot be parsed is read again; those that are taken
            are gone.
        budget: of all files of the store; None where this is the only one.
    """
    document = _read_config(place, path, budget)
    while document.problems and pauses:
        time.sleep(pauses.pop())
        document = _read_config(place, path, budget)
    return document


def _read_config(place: Place, path: str, budget: ParseBudget | None) -> ConfigDocument:
    problems: list[Problem] = []
    for suffix in ("", BACKUP):
        document = _read(place.parent.child(place.name + suffix), path + suffix, problems, budget)
        if document is not None:
            return ConfigDocument(place.name, path + suffix, document, bool(suffix), (*problems,))
    return ConfigDocument(place.name, "", {}, False, (*problems,))


def plain_name(path: str) -> str:
    """Give the name of a file in `config` by the path of it, or of its `.bak`."""
    return path.rpartition("/")[2].removesuffix(BACKUP)


def is_known_config(name: str) -> bool:
    """Tell whether a file in `config` is one whose readers are known, or no JSON at all."""
    plain = name.removesuffix(BACKUP).removesuffix(TEMPORARY)
    return not is_json(name) or plain in {*CONFIG_NAMES, *METRICS}


def is_json(name: str) -> bool:
    """Tell by its name whether a file in `config` holds JSON."""
    name = name.removesuffix(BACKUP).removesuffix(TEMPORARY)
    return name.endswith(".json") or name in METRICS


def read_paid(place: Place, budget: ParseBudget | None) -> bytes:
    """Read a file whole, once it is paid for: a hole of 32 MiB costs a stranger nothing.

    Raises:
        UnreadablePath: it cannot be read, or is too large, or all such files together are.
    """
    entry = place.stat()
    if budget is not None and entry is not None:
        try:
            budget.spend_once(f"{place} has", min(entry.size, LARGEST_CONFIG) // BYTES_A_STEP)
        except OverBudget as error:
            raise UnreadablePath(
                path=str(place), reason=str(error), trouble=Trouble.EXPLAINED
            ) from error
    return place.read_whole(LARGEST_CONFIG)


def _read(
    place: Place, path: str, problems: list[Problem], budget: ParseBudget | None
) -> dict[str, Any] | None:
    try:
        entry = place.stat()
        if entry is None:
            return None
        if entry.kind is not EntryKind.FILE:
            what = "neither a file nor a directory"
            if entry.kind is not EntryKind.OTHER:
                what = f"is a {entry.kind}, not a file"
            problems.append(Problem(path, Fault.BROKEN, f"{path}: {what}"))
            return None
        raw = read_paid(place, budget)
    except UnreadablePath as error:
        problems.append(Problem(path, Fault.BROKEN, str(error)))
        return None
    if not raw.strip(b" \t\r\n"):
        fault = Fault.BLANK if raw else Fault.EMPTY
        problems.append(Problem(path, fault, f"{path}: is empty"))
        return None
    try:
        return parse_file(raw, name=plain_name(path), path=path, budget=budget)
    except DecodeError as error:
        problems.append(Problem(path, Fault.BROKEN, str(error)))
        return None
