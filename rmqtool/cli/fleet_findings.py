"""The findings of many stores as JSON lines, beside the rows that sum them up."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from rmqtool.tables.fleet import BROKER, STORE

if TYPE_CHECKING:
    from rmqtool.check.many import StoreVerdict
    from rmqtool.check.options import ValidateOptions
    from rmqtool.writing.output import OutputFile


class FleetFindings:
    """A file of findings, which appears when all of them are in it.

    Args:
        path: of the file; None where none was asked for.
        options: of the validations.
    """

    def __init__(self, path: str | None, options: ValidateOptions) -> None:
        self._path, self._options = path, options
        self._opened = ExitStack()
        self._file: OutputFile | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            from rmqtool.writing.output import OutputFile

            self._file = self._opened.enter_context(OutputFile(self._path))
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.__exit__(*error)  # type: ignore[arg-type]

    def put(self, verdict: StoreVerdict) -> StoreVerdict:
        """Write the findings of a store; give its verdict back."""
        if self._file is None:
            return verdict
        import orjson

        from rmqtool.cli.validation import ready_row

        name, broker = verdict.row[STORE.name], verdict.row[BROKER.name]
        options = replace(self._options, store=str(name))
        for finding in verdict.findings:
            row = ready_row(finding, options, verdict)
            named_row = {STORE.name: name, BROKER.name: broker, **row}
            self._file.binary.write(orjson.dumps(named_row) + b"\n")
        return verdict
