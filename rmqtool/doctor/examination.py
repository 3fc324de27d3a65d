"""Ask the other rooms about a store: who wrote it, what is wrong, how a start would go, what helps.

The log is read by the validation that a repair plan is made of; what it found wrong, and what the
next start would change, is read again by the start's model.
"""

from __future__ import annotations

import gc
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.conf import CLEANED_ABOVE, CLEANS_ABOVE, CLEANS_FORCIBLY
from rmqtool.broker.release import Version
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import RmqtoolError, UnreadablePath
from rmqtool.findings.catalogue import Area, Severity
from rmqtool.findings.registry_layout import FS_LOCK
from rmqtool.info.overview import SECTIONS
from rmqtool.info.survey import Survey
from rmqtool.ledger.account import may_have_lost
from rmqtool.query.lost import lost_messages
from rmqtool.queues.discovery import Queues
from rmqtool.queues.short import short_queues
from rmqtool.repair.planning import examine
from rmqtool.startup.account import counted_by
from rmqtool.startup.losses import LogReading
from rmqtool.startup.retention import early_deletion
from rmqtool.startup.start import predict
from rmqtool.store.access import Holdings, owner_name, user_named
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.lengths import wrong_lengths
from rmqtool.store.one_look import one_look
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqtool.check.report import Summary
    from rmqtool.findings.finding import Finding
    from rmqtool.info.overview_rows import EndRow, StoreRow
    from rmqtool.ledger.account import LossAccount
    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Plan
    from rmqtool.startup.prediction import Prediction
    from rmqtool.startup.retention import EarlyDeletion
    from rmqtool.store.access import User
    from rmqtool.store.lengths import WrongLength
    from rmqtool.store.tree import Store


# Whatever is wrong there, log and queues are what they should be.
_BESIDE_THE_LOG: Final = frozenset(
    {Area.INDEX, Area.CHECKPOINT, Area.TIMER, Area.CONFIG, Area.OFFSETS, Area.FILTERS}
)
MOST_NOTED: Final = 4096  # bytes of two numbers and their names
CONFS: Final = ("conf/broker.conf", "broker.conf")  # beside a store


@dataclass(frozen=True, slots=True)
class Examination:
    """What the other rooms know."""

    store: str  # as it was typed
    options: RepairOptions  # of the repair that would be planned
    about: StoreRow  # what the store is, and who wrote it
    end: EndRow | None  # where the log ends; None without a log
    files: int  # of the commitlog
    size: int  # their bytes
    host: Host | None  # what is around the files; None where that cannot be seen
    findings: list[Finding]  # of a validation
    summary: Summary  # of that validation
    prediction: Prediction | None = None  # of the next start; None where it cannot be made
    not_predicted: str = ""  # why; empty otherwise
    plan: Plan | None = None  # of a repair; None where it cannot be made
    not_planned: str = ""  # why; empty otherwise
    account: LossAccount | None = None  # what is lost already; None where that cannot be counted
    lengths: list[WrongLength] = field(default_factory=list)  # that are configured wrongly
    # rows of `tables/lost_messages.py`
    lost_messages: list[dict[str, Any]] = field(default_factory=list)
    # a broker.conf that lies beside the store and was not given; empty for none
    conf_beside: str = ""
    # index of the last entry that DLedger's group has committed, and of the last one, as the node
    # noted them at its last flush; None for another log
    committed: tuple[int, int] | None = None
    early: EarlyDeletion | None = None  # what goes as the disk is too full; None for nothing
    is_release_assumed: bool = False  # nothing tells the major line of the release that wrote it

    @property
    def missing(self) -> int:
        """Messages that are lost already."""
        return self.account.messages if self.account is not None else 0

    @property
    def is_whole_store(self) -> bool:
        """Whether a store root was asked for, not a part of one."""
        return self.about.recognised_as == ArtefactKind.STORE

    @property
    def is_live(self) -> bool:
        """Whether a broker runs on the store."""
        return bool(self.about.lock_held)


def examine_store(
    options: RepairOptions,
    watch: Callable[[int], None] = lambda _: None,
    as_user: str | None = None,
    now_ms: int | None = None,
) -> Examination:
    """Ask everybody.

    Args:
        options: the store, and what it is to be judged by.
        watch: takes the bytes of the log done since it was last called.
        as_user: who runs the broker, by name or number; None is whoever owns most of the store.
        now_ms: when it would be started, ms since 1970; None is now.

    Raises:
        UsageError: there is no such user, or the release is not known.
        UnreadablePath: the store cannot be opened at all.
        NotAStore: nothing of a store was recognised.
    """
    store = open_store(options.store, options.broker_conf)
    with one_look(is_still=store.lock_held() is False):
        return _examined(store, options, watch, as_user, now_ms)


def _examined(
    store: Store,
    options: RepairOptions,
    watch: Callable[[int], None],
    as_user: str | None,
    now_ms: int | None,
) -> Examination:
    host = host_of(store, as_user)
    about, end, files, size, is_settled = _about(store)
    oracle = _Oracle(store, options.broker_version, as_user, now_ms)
    plan, not_planned = None, ""
    try:
        examined = examine(options, watch, oracle.foretell)
    except RmqtoolError as error:
        not_planned = str(error)
        run = validate(_asked(options))
        findings = [finding for finding in run if finding.code != FS_LOCK]
        summary = run.summary
        prediction = oracle.foretell()
        account = counted_by(prediction) if prediction is not None else None
    else:
        plan, findings, summary, account = examined
        prediction = oracle.prediction
    for severity in Severity:  # the lock is no damage: it is told on its own
        summary.codes.pop((FS_LOCK, severity), None)
    numbers = account and account.numbers
    version = Version.parse(options.broker_version or about.rules_of)
    early = None
    if host is not None and host.over and host.deletes_early:
        early = early_deletion(store, version, host.over)
    return Examination(
        store=options.store,
        options=options,
        about=about,
        end=end,
        files=files,
        size=size,
        host=host,
        findings=findings,
        summary=summary,
        prediction=prediction,
        not_predicted=oracle.why_not,
        plan=plan,
        not_planned=not_planned,
        account=account,
        lost_messages=plan.lost_messages if plan else lost_messages(store, findings, numbers),
        conf_beside="" if options.broker_conf else conf_beside(store),
        is_release_assumed=not (options.broker_version or is_settled),
        early=early,
        committed=_committed(store) if store.is_dledger else None,
        lengths=list(wrong_lengths(store, version)),
    )


def _about(store: Store) -> tuple[StoreRow, EndRow | None, int, int, bool]:
    """Say what the store is, and where its log ends.

    Returns:
        What it is, its end, files and bytes of the log, whether the release is settled. The survey
        itself has columns of all queues, which go with it.
    """
    with Survey(store) as survey:
        (about,) = SECTIONS["store"](survey)
        end = next(iter(SECTIONS["end"](survey)), None)
        log = survey.commitlog
        return about, end, len(log.segments), log.size, survey.written_by.is_settled


@dataclass(slots=True)
class _Oracle:
    """Predicts the next start, once it is known what a validation found."""

    store: Store
    version: str | None
    as_user: str | None
    now_ms: int | None
    prediction: Prediction | None = None
    why_not: str = ""  # empty where there is a prediction

    def foretell(
        self, findings: list[Finding] | None = None, summary: Summary | None = None
    ) -> Prediction | None:
        """Predict it, by what a whole validation found; None where that cannot be done."""
        self.prediction, self.why_not = None, ""
        gc.collect()  # of many queues the validation leaves as much as this takes, in circles
        reads = LogReading.ALL
        if findings is not None and summary is not None and has_sound_log(findings):
            is_spotless = not self.store.moment.is_live and has_spotless_log(summary)
            reads = LogReading.IF_ANY_CHANGES if is_spotless else LogReading.WHAT_CHANGES
        try:
            self.prediction = predict(
                self.store,
                self.version,
                as_user=self.as_user,
                reads=reads,
                now_ms=self.now_ms,
            )
        except RmqtoolError as error:
            self.why_not = getattr(error, "reason", str(error))
        return self.prediction


def has_sound_log(findings: Iterable[Finding]) -> bool:
    """Tell by what a whole validation found whether log and queues are what they should be."""
    return not may_have_lost(
        (finding.code, finding.severity)
        for finding in findings
        if finding.code.area not in _BESIDE_THE_LOG
    )


def has_spotless_log(summary: Summary) -> bool:
    """Tell whether a whole validation compared log and queues, and found not even a note there."""
    is_whole = summary.is_finished and not (summary.account.unread or summary.account.left_out)
    return is_whole and all(code.area in _BESIDE_THE_LOG for code, _ in summary.codes)


def _committed(store: Store) -> tuple[int, int] | None:
    """Read what a DLedger node notes of its log. Source: DLedgerMmapFileStore#persistCheckPoint."""
    if not store.commitlog.segments:
        return None
    place = store.commitlog.segments[0].place.parent.parent.child("checkpoint")
    try:
        lines = place.read(MOST_NOTED).decode("ascii", "replace").splitlines()
    except RmqtoolError:
        return None
    notes = {name: value for name, _, value in (line.partition("=") for line in lines)}
    indexes = [notes.get(name, "") for name in ("committedIndex", "endIndex")]
    return (int(indexes[0]), int(indexes[1])) if all(map(str.isdecimal, indexes)) else None


def conf_beside(store: Store) -> str:
    """Give the path of a broker.conf that lies where the broker of a store may have it."""
    if not store.root.is_local:
        return ""
    above = os.path.dirname(os.path.abspath(store.root.location))  # noqa: PTH100, PTH120 - a text
    places = (os.path.join(above, name) for name in CONFS)  # noqa: PTH118 - likewise
    return next(filter(os.path.isfile, places), "")


def _asked(options: RepairOptions) -> ValidateOptions:
    return ValidateOptions(
        options.store,
        broker_version=options.broker_version,
        broker_conf=options.broker_conf,
        jobs=options.jobs,
    )


# Where a store lies: who owns its files, what the broker may do with them, the disk below it.
#
# Only a store on this machine is looked at. Nothing is written.


# Past diskSpaceCleanForciblyRatio a broker deletes the oldest commitlog files before their time,
# past diskSpaceWarningLevelRatio it refuses messages, too: CleanCommitLogService#isSpaceToDelete of
# DefaultMessageStore, 4.9.3 to 5.5.0.
REFUSES_RATIO: Final = 0.90
# With less than a block a store into a hole of a mapped file is a SIGBUS, at which Java ends. On a
# full disk 5.3.3 did not come up (observed); 4.9.3 came up and refused messages, 5.5.0 took some.
LEAST_FREE: Final = 4096  # bytes


@dataclass(frozen=True, slots=True)
class Host:
    """What is around the files of a store."""

    user: str  # who asks
    owner: str  # who runs the broker; see `store.access`
    # paths that this user cannot read and write, relative to the store root, sorted
    denied: tuple[str, ...]
    is_read_only: bool  # whether the file system of root or log takes no writes
    free: int  # bytes that an ordinary user may still write there, the least of all
    used: float  # share of that file system that is used, 0 to 1
    fullest: str  # a path on that file system; empty where it is that of the store root
    deletes_early: bool  # whether a broker deletes files before their time where it is too full
    deletes_above: float  # of what share of it that is used
    over: int  # bytes that are used above that share; 0 below it

    @property
    def is_full(self) -> bool:
        """Whether a broker may end as soon as it writes into a hole of a file."""
        return self.free < LEAST_FREE


def host_of(store: Store, as_user: str | None = None) -> Host | None:
    """Look around a store; None where it is on no file system of this machine.

    Args:
        store: the store.
        as_user: who runs the broker, by name or number; None is whoever owns most of the store.

    Raises:
        UsageError: there is no such user.
    """
    if not store.root.is_local:
        return None
    root = store.root.location
    outside = [
        artefact.place.location for artefact in store.branches if artefact.path.startswith("/")
    ]
    disks = {path: os.statvfs(path) for path in (root, *outside)}
    place = min(disks, key=lambda path: disks[path].f_bavail * disks[path].f_frsize)
    fullest = disks[place]
    taken = fullest.f_blocks - fullest.f_bfree
    least, most = CLEANED_ABOVE
    share = min(max(CLEANS_ABOVE.of(store.broker_conf), least), most) / 100
    over = (taken - share * (taken + fullest.f_bavail)) * fullest.f_frsize
    with Queues(store) as queues:
        family = queues.files.family
    try:
        holdings = Holdings.of(store, short_queues(family))
    except UnreadablePath:  # whoever checks the queues says so
        holdings = Holdings(store)
    broker = holdings.usual_user() if as_user is None else user_named(as_user)
    return Host(
        user=owner_name(os.geteuid()),
        owner=broker.name if broker else "",
        denied=_denied(holdings, broker) if broker else (),
        is_read_only=any(disk.f_flag & os.ST_RDONLY for disk in disks.values()),
        free=fullest.f_bavail * fullest.f_frsize,
        used=taken / (taken + fullest.f_bavail) if taken + fullest.f_bavail else 0.0,
        fullest="" if place == root else place,
        deletes_early=CLEANS_FORCIBLY.of(store.broker_conf),
        deletes_above=share,
        over=max(math.ceil(over), 0),
    )


def _denied(holdings: Holdings, broker: User) -> tuple[str, ...]:
    return tuple(held.path for held in holdings.chosen(lambda held: not held.allows(broker)))
