"""`rmqtool startup`: what a broker would do if it were started on a store now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from rmqtool.cli.completion.values import broker_versions, startup_sections
from rmqtool.cli.declaration import Command, Option
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, NO
from rmqtool.cli.options import SECTION, AsUser, At, BrokerConf, StorePath, UnpackLimit, sections
from rmqtool.errors import UsageError


@dataclass(frozen=True)
class Startup(Command):
    """It says whether the broker refuses and why, where recovery begins and where the log ends. It
    names the segments, index files and queue units that go, and the messages that are lost or out
    of reach. It says where dispatch goes on, and gives the next offset of each queue. Nothing is
    written. The exit code is 1 when a start costs messages, delivers some twice, or fails.

    It is the preflight of an upgrade or a downgrade, too: with --broker-version, the release that
    will run, and --broker-conf, its file. Section 'unread' names each part that this release does
    not read, its effect, and what to do first. Unknown settings are named, too. The exit code is
    then 1.

    Sections: verdict, losses, unread, steps, queues. Losses are of eight kinds. 'lost': cut off the
    log for good. 'cut': still in the log, but its queue no longer leads to it. 'unlisted': in the
    log, and its own topic and queue do not lead to it. 'misdelivered': another topic or queue leads
    to it. 'unrouted': in reach, but its topic is not configured, so that no client finds a route.
    'light': in the log, and a light queue that it names does not get it. 'compacted': in the log,
    and compaction/ does not get it, which consumers of its topic read. 'deleted-topic', for
    information: as 'unlisted', in topics that are configured no more. Waiting timer messages are a
    step, and so are timer messages that the broker would never deliver: a release before 5.0.0
    delivers none. Steps, too, are what missing offsets cost: 'repeat', 'start_over'. 'expire' lists
    commitlog files that the broker deletes on its first day, by fileReservedTime, deleteWhen and
    the times of the files: no loss of the start, and the exit code does not count it.

    A log of up to 256 MiB is read whole. Files of a longer log are not read if queues cover them
    without a hole and a sample of units leads to the right messages: 'not_read' counts them.

    File lengths and switches come from --broker-conf; without it lengths are read off the files
    and the switches are RocketMQ's defaults; light queues show that their switches are on.

    Beside a running broker the answer is for a process that dies now. A power cut may lose
    more: data that the system has not written to the disk yet.

    Predictions are what real message stores then did, with some 300 damaged stores and with all
    that real brokers left. Those were of 4.9.3, 5.1.4, 5.2.0, 5.3.3, 5.5.0 and 5.5.1: 'is_proven'
    names them. Other releases follow their source. Queues in RocksDB are predicted, too, with those
    in files beside them, and databases of topics, groups and offsets (compared with 5.3.3 and
    5.5.0). For rocksdbstore, forgotten and repeated work is predicted. Refused, as a store's
    files do not tell: DLedger logs. Not looked at, and named in the steps as 'not_modelled': where
    timerlog is cut, damage in compaction/. Files of the index that are made within one millisecond
    get one name: the broker then has fewer of them than are predicted.
    """

    store: StorePath
    broker_version: Annotated[
        str | None,
        Option(
            "--broker-version",
            "Version of the broker: a release such as 5.3.3, or a line such as 5.3. By default the "
            "release that wrote the store.",
            "V",
            completes=broker_versions,
        ),
    ] = None
    rules_of: Annotated[
        str | None,
        Option(
            "--rules-of",
            "Predict a release that is not known, such as 6.0.0, by the rules of this one. The "
            "answer says that it is unproven.",
            "V",
            completes=broker_versions,
        ),
    ] = None
    section: Annotated[tuple[str, ...], SECTION._replace(completes=startup_sections)] = ()
    all_queues: Annotated[
        bool, Option("--all-queues", "Show queues that nothing happens to, too.")
    ] = False
    broker_conf: BrokerConf = None
    unpack_limit: UnpackLimit = None
    as_user: AsUser = None
    at: At = None
    delivery: Delivery = Delivery()

    def __post_init__(self) -> None:
        if self.rules_of and not self.broker_version:
            reason = "it needs --broker-version, the release that is predicted"
            raise UsageError(option="--rules-of", reason=reason)

    def describe(self) -> int:
        """Write what the rows of the sections are."""
        from rmqtool.startup.report import SECTIONS, TABLES

        wanted = sections(self.section, SECTIONS)
        return self.delivery.describe(
            [table for table in TABLES if table.name in wanted], self.store
        )

    def run(self) -> int:
        """Predict it; 1 when messages would be lost or the broker would not come up."""
        import shlex

        from rmqtool import memory

        with memory.lasting():
            from rmqtool.startup import predict
            from rmqtool.startup.report import SECTIONS, report, verdict
            from rmqtool.store.release import written_by
            from rmqtool.store.tree import open_store

        self.delivery.keep_out_of(self.store)
        wanted = sections(self.section, SECTIONS)
        store = open_store(self.store, self.broker_conf)
        now = None if self.at is None else self.delivery.clock.ms("--at", self.at)
        version = self.rules_of or self.broker_version
        prediction = predict(store, version, as_user=self.as_user, now_ms=now)
        if self.rules_of and self.broker_version:
            prediction = replace(prediction, version=self.broker_version, is_proven=False)
        reported = report(prediction, all_queues=self.all_queues)
        tables = [rows for rows in reported if rows.name in wanted]
        if len(tables) == 1:
            self.delivery.emit(tables[0])
        else:
            self.delivery.emit_all(tables)
        self.delivery.note(verdict(prediction))
        if self.broker_version is None:
            wrote = written_by(store)
            note = f"--broker-version {prediction.version}: the release that wrote the store"
            if not wrote.is_settled:
                note = f"{prediction.version} is assumed; --broker-version V names the release "
                note += f"that wrote the store: {wrote}"
            self.delivery.note(note)
        if prediction.is_whole:
            return DONE
        if prediction.has_no_log:
            self.delivery.note(
                "next, before any broker is started: mount or restore the commitlog directory, or "
                "correct storePathCommitLog"
            )
            return NO
        if prediction.unread:
            self.delivery.note(
                "next, while the release that wrote the store still runs: see `before` in section "
                "unread, then ask again"
            )
        if replace(prediction, timers_lost=0).is_whole:
            keep = f"rmqtool extract {shlex.quote(self.store)} --pending --output waiting.jsonl"
            self.delivery.note(f"next: {keep}; then rmqtool send gives them to a broker")
            return NO
        reset = " --reset-config" if prediction.lacks_configuration else ""
        repair = f"rmqtool repair {shlex.quote(self.store)}{reset} --dry-run"
        self.delivery.note(f"next, before any broker is started: {repair}")
        return NO
