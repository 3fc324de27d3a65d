"""Validate the stores of many brokers: a row for each, and one that fails stops no other."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rmqtool.check.validate import validate
from rmqtool.errors import NotAStore, RmqtoolError
from rmqtool.findings.catalogue import Severity
from rmqtool.store.address import place_of
from rmqtool.store.below import stores_below
from rmqtool.store.release import written_by
from rmqtool.store.tree import open_store
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.check.options import ValidateOptions
    from rmqtool.findings.finding import Finding
    from rmqtool.store.place import Place

NOT_READ: Final = "not read"
STORES: Final = Table(
    "stores",
    "the validation of one of several stores",
    (
        Column("path", Type.TEXT, "the store root"),
        Column("release", Type.TEXT, "which releases may have written it last", is_optional=True),
        Column("messages", Type.INT64, "records of the commitlog that were read"),
        Column("verdict", Type.TEXT, "sound, damaged, incomplete, not read, or what else it is"),
        Column("damages", Type.INT64, "findings that are damage"),
        Column("warnings", Type.INT64, "findings that are warnings"),
        Column("notes", Type.INT64, "findings that are notes"),
        Column(
            "worst",
            Type.TEXT,
            "the first finding of the highest severity, or why the store is not read",
            is_optional=True,
        ),
    ),
)


class Stores:
    """Several stores, one after the other; then directories that may hold others.

    Attributes:
        paths: of the stores.
        exit_code: the worst so far: 3 not all was read, 1 damage, 0 none.

    Args:
        options: what to validate in each.
        paths: directories with stores below them.

    Raises:
        NotAStore: there is no store below a path.
    """

    def __init__(self, options: ValidateOptions, paths: Iterable[str]) -> None:
        self._options = options
        self._refused: list[tuple[str, str]] = []
        self.paths = [found for path in paths for found in self._below(path)]
        self.exit_code = 0

    def rows(self, watch: Callable[[int, int], None]) -> Iterator[dict[str, object]]:
        """Yield a row for each store, when it has been validated.

        Args:
            watch: takes how many are done, of all.
        """
        for number, path in enumerate(self.paths):
            watch(number, len(self.paths))
            try:
                yield self._row(path)
            except RmqtoolError as error:
                yield self._not_read(path, str(error))
        watch(len(self.paths), len(self.paths))
        for path, reason in self._refused:
            yield self._not_read(path, reason)

    def _not_read(self, path: str, reason: str) -> dict[str, object]:
        self.exit_code = 3
        return {"path": path, "messages": 0, "verdict": NOT_READ, "worst": reason}

    def _row(self, path: str) -> dict[str, object]:
        options = replace(self._options, store=path)
        findings = validate(options)
        worst: Finding | None = None
        for one in findings:
            if worst is None or one.severity.rank > worst.severity.rank:
                worst = one
        self.exit_code = max(self.exit_code, findings.exit_code)
        summary = findings.summary
        release = str(written_by(open_store(path, options.broker_conf), lambda _: None))
        return {
            "path": path,
            "release": release,
            "messages": summary.account.records,
            "verdict": summary.verdict,
            "damages": summary.counts.get(Severity.DAMAGE, 0),
            "warnings": summary.counts.get(Severity.WARNING, 0),
            "notes": summary.counts.get(Severity.NOTE, 0),
            "worst": worst and f"{worst.code} {worst.path}: {worst.message}",
        }

    def _below(self, path: str) -> list[str]:
        """Give the stores below a path, as the path was typed.

        Raises:
            NotAStore: there is none, and all was looked at.
        """
        top = place_of(path)
        separator = "" if path.endswith("!") else "/"

        def typed(found: Place) -> str:
            name = found.location[len(top.location) :].strip("/")
            return f"{path.rstrip(os.sep)}{separator}{name}" if name else path

        def refuse(found: Place, reason: str) -> None:
            self._refused.append((typed(found), reason))

        before = len(self._refused)
        stores = [typed(found) for found in stores_below(top, refuse)]
        if not stores and len(self._refused) == before:
            raise NotAStore(path=path, reason="no store was found below this directory")
        return stores
