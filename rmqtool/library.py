"""The library face: a store for notebooks and scripts, read-only like everything else here."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from rmqtool.rows import ROWS_A_CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from rmqtool.findings.finding import Finding
    from rmqtool.formats.message import Message
    from rmqtool.store.artefact import Artefact
    from rmqtool.store.tree import Store
    from rmqtool.table import Table
    from rmqtool.tables.selection import Selection


@dataclass(frozen=True, repr=False)
class OpenStore:
    """A store root, a directory of it, or one file."""

    store: Store  # its artefacts, geometry and files; see `rmqtool.store.tree.Store`
    path: str  # what was opened
    broker_conf: str | None = None  # the broker's configuration file, if one was given

    def __repr__(self) -> str:
        size = self.store.commitlog.size
        log = f": {size:,} bytes of commitlog" if size else ""
        return f"<{self.store.asked.kind} {self.path}{log}>"

    def artefacts(self) -> Iterator[Artefact]:
        """Give every file that was recognised, with its kind and what told."""
        return self.store.artefacts()

    def rows(
        self,
        kind: str | None = None,
        selection: Selection | None = None,
        **options: Any,  # noqa: ANN401 - the fields of DumpOptions
    ) -> Iterator[dict[str, Any]]:
        """Give the rows that `rmqtool dump` shows, as dictionaries.

        Args:
            kind: as `dump --as`; None is what was opened, and of a store root its messages.
            selection: which rows; None is all.
            options: further fields of `rmqtool.tables.dump.DumpOptions`.
        """
        from rmqtool.check.of_table import with_defects
        from rmqtool.rows import rows_of
        from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
        from rmqtool.tables.selection import Selection

        wanted = DumpOptions(
            (self.path,), kind, self.broker_conf, selection or Selection(), **options
        )
        outcome = DumpOutcome()
        for rows in with_defects(dump(wanted, outcome), wanted, outcome):
            for chunk in rows:
                yield from (dict(row) for row in rows_of(chunk))

    def batches(
        self, kind: str | None = None, selection: Selection | None = None, body: str = "none"
    ) -> Iterator[pa.RecordBatch]:
        """Give rows as Arrow batches: messages, queue units, index entries, timer.

        What is damaged in their files, and is no row of them, comes last: its extent is `finding`.

        Args:
            kind: as `dump --as`; small files have rows only.
            selection: which rows; None is all.
            body: what the column `body` of messages holds, as `dump --body`: `text`, `hex`,
                `base64`, `redacted`, or `none` where it is null.

        Raises:
            UsageError: rows of this kind do not come as columns.
            ValueError: bodies cannot be shown so.
        """
        from rmqtool.check.of_table import Asked, defects
        from rmqtool.tables.arrow_batches import batches
        from rmqtool.tables.bodies import BodyMode, BodyOptions
        from rmqtool.tables.defects import defect_batch
        from rmqtool.tables.dump import DumpOptions
        from rmqtool.tables.inputs import views_of
        from rmqtool.tables.selection import Selection

        shown = BodyOptions(BodyMode(body))
        wanted = DumpOptions((self.path,), kind, self.broker_conf, selection or Selection(), shown)
        yield from batches(self.store, wanted)
        view = views_of(self.store, kind)[0]
        findings = defects(Asked(self.path, self.broker_conf, view.word, wanted.selection))
        yield from [last] if (last := defect_batch(findings, view.table)).num_rows else []

    def findings(self, level: str = "full") -> Iterator[Finding]:
        """Give what `rmqtool validate` finds, while it is found.

        Args:
            level: how deep: `quick`, `full` or `deep`.

        Raises:
            ValueError: there is no such level.
        """
        from rmqtool.check.options import CheckLevel, ValidateOptions
        from rmqtool.check.validate import validate

        options = ValidateOptions(self.path, level=CheckLevel(level), broker_conf=self.broker_conf)
        yield from validate(options)

    def scanner(
        self,
        kind: str = "messages",
        selection: Selection | None = None,
        columns: Sequence[str] | None = None,
        body: str = "none",
    ) -> pa.RecordBatchReader:
        """Give rows as one Arrow stream, for pandas, polars, DuckDB and whatever else reads those.

        Of the log no more is read than the stream's reader asks for.

        Args:
            kind: `messages`, `findings`, or as `dump --as`.
            selection: which rows; None is all. It does not count for findings.
            columns: their names, in order; None is all.
            body: as in `batches`.

        Raises:
            UsageError: rows of this kind do not come as columns, or there is no such column.
        """
        import pyarrow as pa

        from rmqtool.errors import UsageError
        from rmqtool.findings.finding import FINDINGS
        from rmqtool.plural import meant
        from rmqtool.store.artefact import ArtefactKind
        from rmqtool.tables.record_tables import MESSAGES
        from rmqtool.tables.views import VIEWS

        if kind == FINDINGS.name:
            table, batches = FINDINGS, _batches_of(FINDINGS, self.findings())
        else:
            batches = self.batches(None if kind == MESSAGES.name else kind, selection, body)
            table = VIEWS[kind].table if kind in VIEWS else MESSAGES
        names = list(table.names if columns is None else columns)
        for name in names:
            if name not in table.names:
                reason = f"no column {name}; {meant(name, table.names)}"
                raise UsageError(option="columns", reason=reason)
        if columns is not None and kind in {MESSAGES.name, str(ArtefactKind.COMMITLOG)}:
            batches = self._of_log(tuple(names), selection, body)
        first = next(batches, None)
        schema = table.arrow if first is None else first.schema
        rest = () if first is None else chain([first], batches)
        wanted = pa.schema([schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(wanted, (batch.select(names) for batch in rest))

    def _of_log(
        self, names: tuple[str, ...], selection: Selection | None, body: str
    ) -> Iterator[pa.RecordBatch]:
        """Give some columns of messages; no other one is decoded."""
        from rmqtool.reads.options import SourceOptions
        from rmqtool.reads.plan import tasks
        from rmqtool.reads.readers import batches
        from rmqtool.tables.bodies import BodyMode, BodyOptions
        from rmqtool.tables.selection import Selection

        source = SourceOptions(
            self.path,
            columns=names,
            selection=selection or Selection(),
            body=BodyOptions(BodyMode(body)),
            broker_conf=self.broker_conf,
        )
        for task in tasks(source):
            yield from batches(task, source, names)

    def records(self, selection: Selection | None = None) -> Iterator[Message]:
        """Give the commitlog's records, decoded, in the order of the log.

        Args:
            selection: which; None is all.
        """
        from rmqtool.formats.message import decode

        segments = {segment.path: segment for segment in self.store.commitlog}
        for batch in self.batches(None, selection):
            rows = batch.select(["segment", "position", "size", "extent"]).to_pylist()
            if records := [row for row in rows if row["extent"] is None]:
                with segments[records[0]["segment"]].open() as file:  # a batch is out of one file
                    for row in records:
                        yield decode(file.read_at(row["position"], row["size"]))


def _batches_of(table: Table, findings: Iterable[Finding]) -> Iterator[pa.RecordBatch]:
    """Give findings as Arrow batches."""
    import pyarrow as pa

    rows = iter(findings)
    while some := [row.row() for row in islice(rows, ROWS_A_CHUNK)]:
        yield pa.RecordBatch.from_pylist(some, table.arrow)


def open_store(path: str, broker_conf: str | None = None) -> OpenStore:
    """Open a store root, a directory of it, or one file; nothing but names is read yet.

    Args:
        path: what to open.
        broker_conf: the broker's configuration file, for lengths and paths that are not usual.

    Raises:
        UnreadablePath: it does not exist or may not be read.
        NotAStore: nothing of a RocketMQ store was recognised.
    """
    from rmqtool.store.tree import open_store as open_tree

    return OpenStore(open_tree(path, broker_conf), str(path), broker_conf)
