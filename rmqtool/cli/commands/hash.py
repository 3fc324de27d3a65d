"""`rmqtool hash`: a hash of what a log holds, to compare replicas that cannot meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rmqtool.cli.declaration import Command, Option
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, IN_PART, NO, NOT_DONE, say
from rmqtool.cli.options import BrokerConf, Jobs, StorePath, UnpackLimit
from rmqtool.errors import UsageError


@dataclass(frozen=True)
class Hash(Command):
    """Replicas have the same hash, whatever the length of their files. The hash is the sum of the
    SHA-256 of each record, without the place of the record. The order does not matter. A replica
    that lags, or whose oldest segments have expired, has fewer records: give both commands the same
    --from and --until.

    The checksum of a broker's own API (calcDeltaChecksum) covers records with their places. It is
    in a manifest, file by file: 'rmqtool validate STORE --manifest FILE --range-checksum'.

    Damaged records are left out, and counted as gaps. The exit code is then 1. It is 3 when some
    input could not be read.
    """

    store: StorePath = ""
    from_: Annotated[
        str | None,
        Option("--from", "Only records from this physical offset on.", "OFFSET"),
    ] = None
    until: Annotated[
        str | None,
        Option("--until", "Only records before this physical offset.", "OFFSET"),
    ] = None
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    jobs: Jobs = None
    delivery: Delivery = Delivery()

    def describe(self) -> int:
        """Write what the row is."""
        from rmqtool.tables.content_hash import HASH

        return self.delivery.describe([HASH], self.store)

    def run(self) -> int:
        """Hash; 1 where something is damaged or there is no record, 3 where it is unreadable."""
        import shlex

        from rmqtool.plural import counted
        from rmqtool.ranges import size
        from rmqtool.render.progress import progress
        from rmqtool.store.artefact import ArtefactKind
        from rmqtool.tables.content_hash import HASH, content_hash
        from rmqtool.tables.inputs import store_of

        self.delivery.keep_out_of(self.store)
        begin = None if self.from_ is None else size("--from", self.from_)
        end = None if self.until is None else size("--until", self.until)
        store = store_of(self.store, self.broker_conf, None)
        if not store.branches_of(ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER):
            raise UsageError(option="STORE", reason=f"{self.store}: there is no commitlog here")
        with progress("hash", None, quiet=self.delivery.quiet) as advance:
            hashed = content_hash(store, (begin, end), jobs=self.jobs, advance=advance)
        self.delivery.emit(HASH.rows([[HASH.row(hashed)]]))
        for error in hashed.unread:
            say(str(error))
        if hashed.unread:
            return IN_PART if hashed.records else NOT_DONE
        if hashed.gaps:
            gaps = counted(hashed.gaps, "gap")
            more = shlex.join(["rmqtool", "validate", self.store or "."])
            self.delivery.note(f"{gaps}: the hash of a sound replica is another one; see {more}")
        if hashed.begin is not None and begin is None and end is None:
            same = f"--from {hashed.begin} --until {hashed.end}"
            self.delivery.note(f"compare a longer log with: rmqtool hash OTHER {same}")
        return DONE if hashed.records and not hashed.gaps else NO
