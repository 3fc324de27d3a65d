"""Which findings a plan answers, and what helps with the others."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from rmqtool.check.queues.orphans import HOLDING, HOLDING_NONE
from rmqtool.errors import Trouble
from rmqtool.findings.catalogue import Owner, Severity
from rmqtool.findings.registry_commitlog import (
    CL_BLANKSIZE,
    CL_FOREIGN,
    CL_QOFF_BACK,
    CL_QOFF_GAP,
    CL_TOPIC,
)
from rmqtool.findings.registry_consume_queue import CQ_LMQ
from rmqtool.findings.registry_layout import FS_GAP, FS_ORPHAN, FS_READ
from rmqtool.findings.registry_state import DO_RANGE
from rmqtool.formats.message import MESSAGE_MAGIC_BYTES, MESSAGE_PREFIX
from rmqtool.repair.log.duplicates import CHUNK, are_same
from rmqtool.repair.plans import Action, place_of
from rmqtool.repair.state.offsets import CLAMPED, WAITING
from rmqtool.store.record_heads import MESSAGE_MAGIC_CODES
from rmqtool.store.segment import NAME_DIGITS, OddityKind, Segment

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from rmqtool.errors import UnreadablePath
    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.plans import Edit
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.place import Place
    from rmqtool.store.segment import MappedFiles

# Of the codes of the log, those that a plan answers only with an edit of their own. All others
# are consequences: nothing of their own is left once the log is bridged.
SOMETIMES: Final = frozenset({CL_BLANKSIZE, CL_TOPIC})
QUEUES: Final = "consumequeue/"
ROCKSDB_QUEUES: Final = "RQ"
DLEDGER: Final = (
    "a DLedger node gets its log from its group: move its data away and let it copy the leader's"
)

DUPLICATES: Final = (
    "first move one of the two commitlog files of the same name away: they differ, and "
    "rmqtool validate FILE judges each"
)
FOREIGN: Final = f"first {CL_FOREIGN.remedy}"
NO_LOG: Final = (
    "first mount or restore the commitlog directory, or correct storePathCommitLog; without a "
    "commitlog nothing can be repaired"
)
WHOLE: Final = 1 << 62  # bytes of a file of which all is meant
ASIDE: Final = "aside"  # a name in the store root that no broker knows
_MAGIC: Final = re.compile(b"|".join(map(re.escape, MESSAGE_MAGIC_BYTES)))
_EXCHANGE: Final = re.compile(r"first exchange the names of (\S+) and (\S+): ")
_RENAME: Final = re.compile(r"first rename (.+) to (\d+): ")  # a name may have spaces
LINKED: Final = (
    "first remove the link, or bring back what it leads to; a queue without the file is repaired "
    "from the log"
)
UNREAD: Final = {
    Trouble.LINK: LINKED,
    Trouble.TOO_LARGE: "no file of a broker is so large: move it out of the store, then look again",
}
UNITS_KEPT: Final = (
    "by hand: the units of this queue lead to sound messages; by the queue offsets in the records "
    "some would be out of reach, so do not rebuild it"
)
ANEW: Final = (
    "decide by hand: rmqtool dump STORE --topic TOPIC --queue ID shows the older messages, which "
    "no queue has any more; to be delivered they have to be sent again"
)


def misnamed(
    segment: Segment, files: MappedFiles, moved: Mapping[int, int], unused: Container[int]
) -> str:
    """Say what to do about a commitlog file that does not lie where its records belong.

    Args:
        segment: the file.
        files: the log.
        moved: by the start of each file whose records agree on another place: where that is.
        unused: starts of files that hold no record.
    """
    start = moved.get(segment.start)
    start = _first_place(segment) if start is None else start
    if start is None or start < 0:
        if segment.start in unused or not segment.size:
            return f"first move {segment.path} out of the store: it holds no record"
        return f"{_saved(segment)}: no record begins it"
    name = f"{start:0{NAME_DIGITS}}"
    there = next((segment for segment in files.segments if segment.start == start), None)
    if there is None:
        return _renamed(segment.path, name)
    if moved.get(start) == segment.start or start in unused or not there.size:
        return (
            f"first exchange the names of {segment.path} and {there.path}: the records say that "
            "they lie in the other file"
        )
    if are_same(segment, there):
        return f"first move {segment.path} out of the store: it is a copy of {there.path}"
    return f"{_saved(segment)}: its records belong into {there.path}, which holds others"


def odd_names(log: MappedFiles, root: Place) -> dict[str, str]:
    """Say what to do about files of the log under names that no broker builds, by their paths.

    Files without a record are left out: nothing is lost with them.

    Args:
        log: the log.
        root: of the store.
    """
    renamed = {}
    for oddity in log.oddities:
        if oddity.kind is OddityKind.SHORT_NAME:
            if sum(segment.start == int(oddity.expected) for segment in log.segments) == 1:
                renamed[oddity.path] = _renamed(oddity.path, oddity.expected)
        elif oddity.kind is OddityKind.FOREIGN_NAME:
            place = place_of(root, oddity.path)
            entry = place.stat()
            if entry is None or not entry.size:
                continue
            segment = Segment(place, oddity.path, 0, entry.size)
            start = _stated_start(segment, log.file_length)
            if start is not None:
                renamed[oddity.path] = _of_foreign(segment, start, log)
    return {path: why for path, why in renamed.items() if why}


def _of_foreign(segment: Segment, start: int, log: MappedFiles) -> str:
    """Say what to do about a file with records under a foreign name; nothing of a copy."""
    there = log.at(start)
    if there is None:
        return _renamed(segment.path, f"{start:0{NAME_DIGITS}}")
    if are_same(segment, there):
        return ""
    return f"{_saved(segment)}: its records belong into {there.path}, which holds others"


def _renamed(path: str, name: str) -> str:
    return f"first rename {path} to {name}: its records say that they lie there"


def _saved(segment: Segment) -> str:
    """Say how the records of a file stay, though no broker can have the file."""
    return (
        f"first save the messages of {segment.path} (rmqtool carve FILE --output SAVED.rmq), then "
        "move it out of the store"
    )


def renames(why: str) -> list[tuple[str, str]]:
    """Give the renames that a remedy of `misnamed` asks for, in order; none where it asks for none.

    Two files change names by way of a third name.
    """
    if match := _EXCHANGE.match(why):
        first, two = match.groups()
        return [(first, ASIDE), (two, first), (ASIDE, two)]
    if match := _RENAME.match(why):
        path, name = match.groups()
        return [(path, f"{path.rpartition('/')[0]}/{name}")]
    return []


def _first_place(segment: Segment) -> int | None:
    """Give the place that the first record of a file names; None without one."""
    with segment.open() as file:
        raw = file.read_at(0, MESSAGE_PREFIX.size)
    if len(raw) < MESSAGE_PREFIX.size:
        return None
    fields = MESSAGE_PREFIX.parse(raw)
    return fields["physical_offset"] if fields["magic_code"] in MESSAGE_MAGIC_CODES else None


def _stated_start(segment: Segment, length: int) -> int | None:
    """Give the start of a file of the log by the place that one of its records states."""
    head = MESSAGE_PREFIX.size
    with segment.open() as file:
        for begin in range(0, segment.size, CHUNK):
            raw = file.read_at(begin, CHUNK + head)
            for match in _MAGIC.finditer(raw):
                at = match.start() - MESSAGE_PREFIX["magic_code"].position
                if at < 0 or len(raw) - at < head:
                    continue
                fields = MESSAGE_PREFIX.parse(raw[at : at + head])
                start = int(fields["physical_offset"]) - begin - at
                if start >= 0 and not start % (length or segment.size):
                    return start
    return None


def with_filled_orphans(findings: Iterable[Finding], edits: list[Edit]) -> Iterator[Finding]:
    """Yield findings; an orphan has messages of its topic once a plan writes units of them."""
    written = [edit.path for edit in edits if edit.action in {Action.WRITE, Action.CREATE}]
    for finding in findings:
        is_empty = finding.code == FS_ORPHAN and finding.severity is Severity.NOTE
        if is_empty and any(path.startswith(f"{finding.path}/") for path in written):
            message = finding.message.replace(HOLDING_NONE, HOLDING)
            yield finding._replace(message=message, severity=Severity.DAMAGE)
        else:
            yield finding


def is_repaired(finding: Finding, writer: EditWriter, obstacle: str) -> bool:
    """Tell whether the edits of a plan answer a finding."""
    code = finding.code
    # No edit brings a record back; of RocksDB's queues one edit answers all, or none does.
    is_other = code == CL_QOFF_GAP or code.prefix == ROCKSDB_QUEUES
    if is_other or (obstacle and code.family.of_log):
        return False
    if code.owner is Owner.LOG and code not in SOMETIMES:
        return True
    if code.owner in {Owner.QUEUES, Owner.BATCH_QUEUES}:
        return any(_touches(edit, finding) for edit in writer.edits)
    if code.owner is Owner.INDEX:
        is_reported = any((left.code, left.path) == (code, finding.path) for left in writer.left)
        is_written = any(edit.path.startswith("index/") for edit in writer.edits)
        return (
            is_reported or is_written or any(edit.code.owner is code.owner for edit in writer.edits)
        )
    if code == CQ_LMQ:
        below = f"{finding.path}/"  # of a queue whose files are gone its directory is named
        is_anew = any(edit.path.startswith(below) for edit in writer.edits)
        covered = sum(_covered(edit, finding) for edit in writer.edits)
        return is_anew or covered >= (finding.length or 1)
    missing = (
        f"{finding.path.rpartition('/')[0]}/{finding.expected}" if code == FS_GAP else finding.path
    )
    is_filled = any(edit.action is Action.CREATE and edit.path == missing for edit in writer.edits)
    is_reported = any(
        left.code == code and left.path in {finding.path, missing} for left in writer.left
    )
    return is_filled or is_reported or any(_is_of(edit, finding) for edit in writer.edits)


def _is_of(edit: Edit, finding: Finding) -> bool:
    """Tell whether an edit is for a finding: one that writes a database anew is for its files."""
    is_within = f"{finding.path}/".startswith(f"{edit.path}/")
    return edit.code == finding.code and (edit.action is not Action.REBUILD or is_within)


def _touches(edit: Edit, finding: Finding) -> bool:
    """Tell whether an edit may answer what is said of a queue: one of its files, or of the log."""
    if finding.code.owner is Owner.BATCH_QUEUES:
        queue = "/".join(finding.path.split("/")[:3])  # one of its files may be named
        return f"{edit.path}/".startswith(f"{queue}/")
    is_of_queue = edit.path.startswith(QUEUES)
    return not is_of_queue or f"{edit.path}/".startswith(f"{finding.path}/")


def _covered(edit: Edit, finding: Finding) -> int:
    """Count the bytes of a finding that an edit writes; findings may be about many units."""
    begin = finding.position or 0
    end = begin + (finding.length or 1)
    first, last = max(begin, edit.position), min(end, edit.position + edit.size)
    return max(last - first, 0) if edit.path == finding.path else 0


def remedy(finding: Finding, obstacle: str, unread: Mapping[str, UnreadablePath]) -> str:
    """Say why a finding stays, or what helps.

    Args:
        finding: the finding.
        obstacle: why the log cannot be judged; empty when it can.
        unread: what could not be read.
    """
    if obstacle and finding.code.family.of_log:
        return obstacle
    if finding.code.owner is Owner.OFFSETS:
        return WAITING if finding.code == DO_RANGE else CLAMPED
    if finding.code == CL_QOFF_BACK:
        return ANEW
    if finding.code == FS_READ and unread[finding.path].trouble in UNREAD:
        return UNREAD[unread[finding.path].trouble]
    return finding.code.remedy or "none"


class FindingsByPlace:
    """Which finding stands at a place of a file, without looking at each.

    Args:
        findings: that ask for something; notes are left out.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        spans: dict[tuple[str, str], list[tuple[int, int, Code]]] = defaultdict(list)
        for finding in findings:
            if finding.severity is not Severity.NOTE:
                start = finding.position or 0
                end = WHOLE if finding.length is None else start + finding.length
                for code in ("", finding.code.name):
                    spans[finding.path, code].append((start, end, finding.code))
        self._spans = {
            key: sorted(known, key=lambda span: span[:2]) for key, known in spans.items()
        }
        # The largest end so far ascends, and the span that raises it past a place covers that.
        self._ends = {
            key: [*accumulate((end for _, end, _ in known), max)]
            for key, known in self._spans.items()
        }

    def code_at(self, path: str, start: int, end: int, code: str = "") -> Code | None:
        """Give the code of the first finding in [start, end) of a file; None for none.

        Args:
            path: of the file.
            start: first byte.
            end: after the last one.
            code: of the finding; of none any.
        """
        known = self._spans.get((path, code), [])
        number = bisect_right(self._ends.get((path, code), []), start)
        return known[number][2] if number < len(known) and known[number][0] < end else None


def named_as_found(edits: Iterable[Edit], findings: Iterable[Finding]) -> Iterator[Edit]:
    """Yield edits with the code that validation gave to what they mend, where it gave one.

    An edit is made from what the log wants, and a finding from what is there: units that are
    zero are missing for the one and a hole for the other.
    """
    known = FindingsByPlace(findings)
    for edit in edits:
        end = edit.position + max(edit.length, 1)
        place = edit.path, edit.position, end
        code = None if known.code_at(*place, edit.code.name) else known.code_at(*place)
        yield edit if code is None else replace(edit, code=code)
