"""Judge the files of one mapped-file directory by their names and lengths: FS-*.

What the loader of a broker would do with each oddity is the measure.
Source: MappedFileQueue#doLoad, MultiPathMappedFileQueue#load, ConsumeQueueStore#load, 4.9.3 to
5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.errors import Truncated, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding, in_passing
from rmqtool.findings.registry_layout import (
    FS_DIR,
    FS_DUP,
    FS_GAP,
    FS_LEN,
    FS_NAME,
    FS_NOLOG,
    FS_READ,
)
from rmqtool.plural import counted
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.segment import OddityKind
from rmqtool.store.unread import UnreadStretches, error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.findings.finding import Finding
    from rmqtool.store.moment import Moment
    from rmqtool.store.segment import MappedFiles, Oddity
    from rmqtool.store.tree import Store

IN_THE_MAKING: Final = "the running broker is making this file"
LENGTHS: Final = frozenset({OddityKind.ODD_LENGTH, OddityKind.EMPTY_FILE})


def unread_finding(path: str, error: UnreadablePath) -> Finding:
    """Say that something cannot be read."""
    return finding(FS_READ, At(path), f"cannot be read: {error.reason}", actual=error.reason)


@dataclass(frozen=True, slots=True)
class FileJudge:
    """Judges directories of files of one store."""

    moment: Moment  # whether a broker runs on it
    # gives the finding of something that cannot be read
    unread: Callable[[str, UnreadablePath], Finding] = unread_finding
    # tells whether the release skips directories, or refuses to start
    skips_directories: Callable[[], bool] = lambda: True

    def files(
        self, files: MappedFiles, is_reported: Callable[[Oddity], bool] = lambda _: False
    ) -> Iterator[Finding]:
        """Judge one directory of segments.

        Args:
            files: of the directory.
            is_reported: tells which oddities have a finding already.
        """
        misnamed, unread = set(), UnreadStretches(files)
        for segment in (*files.segments, *files.misnamed):
            if files.file_length and segment.start % files.file_length:
                misnamed.add(segment.path)
                yield finding(
                    FS_NAME,
                    At(segment.path),
                    "the name is not a multiple of the file length",
                    expected=f"a multiple of {files.file_length}",
                    actual=segment.start,
                )
        for oddity in files.oddities:
            if is_reported(oddity) or is_explained(unread, oddity):
                continue
            if oddity.path not in misnamed or oddity.kind in LENGTHS:
                yield from self.oddity(oddity, files)

    def oddity(self, oddity: Oddity, files: MappedFiles | None = None) -> Iterator[Finding]:
        """Translate an oddity of a directory into a finding."""
        at, expected, actual = At(oddity.path), oddity.expected, oddity.actual
        if error := error_of(oddity):
            yield self.unread(oddity.path, error)
            return
        match oddity.kind:
            case OddityKind.FOREIGN_NAME | OddityKind.SHORT_NAME:
                yield finding(FS_NAME, at, expected=expected, actual=actual)
            case OddityKind.DIRECTORY:
                severity = None if self.skips_directories() else Severity.DAMAGE
                yield finding(FS_DIR, at, severity=severity)
            case OddityKind.ODD_LENGTH | OddityKind.EMPTY_FILE if files is not None:
                yield self._of_length(oddity, files)
            case OddityKind.HOLE:
                yield finding(FS_GAP, at, _gap_message(oddity), expected=expected, actual=actual)
            case OddityKind.OVERLAP:
                message = "the file begins inside the one before it"
                yield finding(FS_NAME, at, message, expected=expected, actual=actual)
            case OddityKind.DUPLICATE:
                yield finding(FS_DUP, at, actual=actual)
            case _:
                pass

    def _of_length(self, oddity: Oddity, files: MappedFiles) -> Finding:
        """Say what is wrong with a file's length, and what helps there.

        A running broker makes a file before it gives it its length. An empty one that was there
        before, it has refused or deleted at its start. Source: DefaultMappedFile#init,
        MappedFileQueue#load, 4.9.3 to 5.5.0.
        """
        is_last = oddity.path == files.segments[-1].path
        at = At(oddity.path)
        if is_last and not oddity.length and self.moment.is_live:
            short = finding(
                FS_LEN,
                at,
                IN_THE_MAKING,
                expected=oddity.expected,
                actual=0,
                severity=Severity.NOTE,
            )
            return in_passing(short)
        missing = files.file_length - (oddity.length or 0)
        message = f"the file is {missing:,} bytes shorter than a broker made it"
        remedy = f"extend it with zeros to {files.file_length:,} bytes"
        if missing < 0:
            message = f"the file is {-missing:,} bytes longer than a broker made it"
            remedy = f"cut off what lies past {files.file_length:,} bytes, unless records do"
        elif not is_last:
            remedy += "; the missing part is bridged in the log, and rebuilt in a queue"
        if not oddity.length:
            message = "the last file is empty" if is_last else "the file is empty"
            remedy = "delete it" if is_last else remedy
        expected, actual = oddity.expected, oddity.actual
        return finding(FS_LEN, at, message, expected=expected, actual=actual, remedy=remedy)


def no_log(store: Store, queues_with_files: Callable[[], int]) -> Iterator[Finding]:
    """Find a store whose queues, index or checkpoint speak of a commitlog that is not there.

    Source: CommitLog#recoverNormally, DefaultMessageStore#destroyLogics, 4.9.3 to 5.5.0.

    Args:
        store: all of it.
        queues_with_files: counts them; asked only where there is no log.
    """
    if store.asked.kind is not ArtefactKind.STORE or store.commitlog or store.old_commitlog:
        return
    oddities = (*store.commitlog.oddities, *store.old_commitlog.oddities)
    if any(oddity.start is not None for oddity in oddities):  # a file of it that cannot be read
        return
    witnesses = [
        counted(count, singular, several)
        for count, singular, several in (
            (queues_with_files(), "queue with files", "queues with files"),
            (len(store.index_files()), "index file", ""),
        )
        if count
    ]
    with suppress(Truncated, UnreadablePath):  # said elsewhere
        if (store.checkpoint() or {}).get("physic_msg_timestamp", 0) > 0:
            witnesses.append("a checkpoint")
    if witnesses:
        speak = "speaks" if witnesses[0].startswith("1 ") and len(witnesses) == 1 else "speak"
        message = f"there is no commitlog; {', '.join(witnesses)} {speak} of one"
        yield finding(FS_NOLOG, At("commitlog"), message)


def is_explained(unread: UnreadStretches, oddity: Oddity) -> bool:
    """Tell whether a hole is where something lies that cannot be read."""
    start, length = oddity.start or 0, oddity.length or 0
    return oddity.kind is OddityKind.HOLE and unread.has(start, start + length)


def _gap_message(oddity: Oddity) -> str:
    start, length = oddity.start or 0, oddity.length or 0
    return f"the {length:,} bytes from {start} to {start + length} are missing before this file"
