"""An examination as rows: for a person one table of a screen, for programs all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.doctor.advice import steps_for, when_deleted
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import FINDINGS
from rmqtool.findings.registry_conf import BC_KEY
from rmqtool.languages import Language
from rmqtool.languages import sentences as spoken_in
from rmqtool.plural import counted
from rmqtool.repair import result as repair
from rmqtool.rows import sentences
from rmqtool.startup import report as startup
from rmqtool.startup.report import not_read, outcome, verdict
from rmqtool.table import Column, Table, Type
from rmqtool.tables.lost_messages import LOST_MESSAGES
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.doctor.examination import Examination
    from rmqtool.rows import Row, Rows
    from rmqtool.startup.prediction import Loss, Prediction


NEXT: Final = "next"  # the line with the command, which stays whole to be copied
SHOWN_KEYS: Final = 6  # of a broker.conf, that a broker ignores
SHOWN_STEPS: Final = 2  # a screen at night: more is in the other formats
DIAGNOSIS: Final = Table(
    "diagnosis",
    "a store as a whole",
    (
        Column("path", Type.TEXT, "the store root, or the given path"),
        Column("commitlog", Type.TEXT, "plain or dledger"),
        Column("release", Type.TEXT, "which releases may have written it last"),
        Column("broker_version", Type.TEXT, "release by whose rules it was judged"),
        Column("stopped", Type.TEXT, "how the broker stopped"),
        Column(
            "lock_held", Type.BOOLEAN, "a process holds the lock, on this machine or on another"
        ),
        Column("files", Type.INT64, "number of commitlog files", "files"),
        Column("size", Type.INT64, "length of the commitlog files", "bytes"),
        Column("records", Type.INT64, "commitlog records that were read", "records"),
        Column("last_store_time", Type.TIME, "when the newest message was stored"),
        Column(
            "owner",
            Type.TEXT,
            "user that runs the broker: --as-user, by default the owner of most files",
        ),
        Column("user", Type.TEXT, "user who asked"),
        Column("denied", Type.TEXTS, "files that the user of the broker cannot read and write"),
        Column("is_read_only", Type.BOOLEAN, "the file system takes no writes"),
        Column("free", Type.INT64, "bytes that are free on the disk of the store", "bytes"),
        Column("starts", Type.BOOLEAN, "the broker would start; null where that is not known"),
        Column("start", Type.TEXT, "the effect of a start, in a sentence"),
        Column("messages_lost", Type.INT64, "messages that a start would lose", "messages"),
        Column(
            "messages_unreachable",
            Type.INT64,
            "messages of the log that their own queue would not lead to after a start",
            "messages",
        ),
        Column(
            "messages_misdelivered",
            Type.INT64,
            "messages that consumers of another topic or queue would get after a start",
            "messages",
        ),
        Column(
            "messages_unrouted",
            Type.INT64,
            "messages of topics that are not configured: no client would find a route to them",
            "messages",
        ),
        Column("messages_missing", Type.INT64, "messages that are lost already", "messages"),
        Column(
            "files_deleted_soon",
            Type.INT64,
            "commitlog files that the broker deletes in its first day; null: none",
            "files",
        ),
        Column("messages_deleted_soon", Type.INT64, "messages in these files", "messages"),
        Column(
            "messages_unconsumed",
            Type.INT64,
            "of these, messages that no consumer group has consumed; null: not counted",
            "messages",
        ),
        Column("verdict", Type.TEXT, "of the validation, a few words"),
        Column("damages", Type.INT64, "findings of damage"),
        Column("warnings", Type.INT64, "findings of severity warning"),
        Column("notes", Type.INT64, "findings of severity note"),
        Column("edits", Type.INT64, "changes that a repair would make"),
        Column("next", Type.TEXT, "what to do first: a command, or advice"),
    ),
)
STEPS: Final = Table(
    "steps",
    "a thing to do, in order",
    (
        Column("cause", Type.TEXT, "the cause"),
        Column("consequence", Type.TEXT, "what follows if nothing is done"),
        Column("advice", Type.TEXT, "what to do, where a command is not all; empty otherwise"),
        Column("command", Type.TEXT, "command to run; empty where no command can do it"),
    ),
    below=("cause", "consequence", "advice", "command"),
)
UNREAD: Final = Table(
    "unread",
    "something that could not be read or was not looked at",
    (
        Column("path", Type.TEXT, "file or directory, or the part that was not read"),
        Column("reason", Type.TEXT, "the obstacle"),
    ),
)
# Of the document, in its order; what does not apply is left out there.
TABLES: Final = (
    *(DIAGNOSIS, STEPS, FINDINGS, LOST_MESSAGES, UNREAD, startup.LOSSES, startup.QUEUES),
    *(repair.EDITS, repair.LEFT),
)


def sections(seen: Examination) -> list[Rows]:
    """Give all that is known, for programs: diagnosis, steps, losses, findings, plan."""
    account = seen.summary.account
    unread = [*account.reasons, *account.left_out]
    tables = [
        DIAGNOSIS.rows([[_diagnosis(seen)]]),
        STEPS.rows([[STEPS.row(step) for step in steps_for(seen)]]),
        FINDINGS.rows([[finding.row() for finding in seen.findings]]),
        LOST_MESSAGES.rows([seen.lost_messages]),
        UNREAD.rows([[{"path": path, "reason": reason} for path, reason in unread]]),
    ]
    if seen.prediction is not None:
        tables += [
            rows
            for rows in startup.report(seen.prediction)
            if rows.name not in {"verdict", STEPS.name}
        ]
    plan = repair.rows_of(seen.plan) if seen.plan else []
    return tables + [rows for rows in plan if rows.name != LOST_MESSAGES.name]


def screen(seen: Examination, language: Language = Language.ENGLISH) -> Rows:
    """Give what a person reads, one screen of it."""
    lines = [line for line in _lines(seen) if line[1]]
    if language is Language.ENGLISH:
        return sentences(lines, DIAGNOSIS.name, (NEXT,))
    say = spoken_in(language).of
    as_is = {NEXT, "store"}  # a command, a path
    spoken = [(say(label), text if label in as_is else say(text)) for label, text in lines]
    return sentences(spoken, DIAGNOSIS.name, (say(NEXT),))


def summary(seen: Examination, language: Language = Language.ENGLISH) -> str:
    """Say what is not on the screen; empty when nothing is."""
    hidden = len(steps_for(seen)) - SHOWN_STEPS
    if hidden <= 0:
        return ""
    text = f"{counted(hidden, 'step')} more: --format json"
    return text if language is Language.ENGLISH else spoken_in(language).of(text)


def exit_code(seen: Examination) -> int:
    """0 nothing to do, 1 something is damaged, lost or in the way, 3 not all could be read.

    What the death of a running broker would cost is told, and does not count: it runs.
    """
    if seen.summary.account.unread:
        return 3
    prediction, host = seen.prediction, seen.host
    is_bad = (
        any(finding.severity is Severity.DAMAGE for finding in seen.findings),
        prediction is not None and _is_bad(prediction),
        bool(seen.missing) and prediction is None,
        host is not None and (host.is_read_only or host.is_full or bool(host.denied)),
        bool(seen.lengths),
    )
    return int(any(is_bad))


def _is_bad(prediction: Prediction) -> bool:
    return not prediction.starts if prediction.is_live else not prediction.is_whole


def _lines(seen: Examination) -> Iterator[tuple[str, str]]:
    about, prediction = seen.about, seen.prediction
    yield "store", about.path
    yield "kind", f"{_kind(seen)}; release {about.release}"
    yield "stopped", about.stopped
    yield "commitlog", _log(seen)
    yield "start", _start(seen)
    if prediction is not None:
        yield "lost if started", _cost(prediction)
        yield "deleted soon", _deleted_soon(seen)
    if prediction is not None or seen.missing:
        yield "lost already", _missing(seen)
    yield "checked", _checked(seen)
    if seen.options.broker_conf is None and seen.is_whole_store:
        place = f"{seen.conf_beside} was not looked at" if seen.conf_beside else "none was given"
        yield "broker.conf", f"{place}: --broker-conf FILE"
    ignored = [finding.message for finding in seen.findings if finding.code == BC_KEY]
    yield from (("broker.conf", message) for message in ignored[:SHOWN_KEYS])
    if len(ignored) > SHOWN_KEYS:
        yield "broker.conf", f"{counted(len(ignored) - SHOWN_KEYS, 'line')} more: --format json"
    for number, step in enumerate(steps_for(seen)[:SHOWN_STEPS]):
        yield ("cause" if not number else "then cause"), step.cause
        yield "consequence", step.consequence
        yield "to do", step.advice
        yield NEXT, step.command


def _log(seen: Examination) -> str:
    if not seen.files:
        return "none"
    newest = seen.end and seen.end.last_store_timestamp
    counts_text = f"; newest message stored {iso_time(newest)}" if newest is not None else ""
    records = counted(seen.summary.account.records, "record")
    return f"{counted(seen.files, 'file')}, {seen.size:,} bytes, {records}{counts_text}"


def _start(seen: Examination) -> str:
    if seen.host and seen.host.is_read_only:
        return "the broker would refuse to start: the file system is mounted read-only"
    if seen.prediction is None:
        return f"not predicted: {seen.not_predicted}"
    whose = "as told" if seen.options.broker_version else "the release that wrote it"
    if seen.is_release_assumed:
        whose = "assumed: --broker-version names the release that wrote it"
    is_short = seen.prediction.starts and not seen.prediction.has_no_log
    say = outcome if is_short else verdict
    room = f"; {seen.host.free:,} bytes are free" if seen.host and seen.host.is_full else ""
    return f"{say(seen.prediction)}{room} ({seen.prediction.version}: {whose})"


def _lost(loss: Loss) -> str:
    if not loss.messages:
        return "nothing"
    count = f"{counted(loss.messages, 'message')} of {counted(len(loss.topics), 'topic')}"
    first, last = loss.first_store_timestamp, loss.last_store_timestamp
    if first is None or last is None:
        return count
    return f"{count}, stored {iso_time(first)} to {iso_time(last)}"


def _missing(seen: Examination) -> str:
    known = seen.prediction.missing if seen.prediction else None
    if known is not None and known.messages == seen.missing:
        return _lost(known)
    return counted(seen.missing, "message")


def _cost(prediction: Prediction) -> str:
    if prediction.has_no_log and prediction.queues:
        return f"{counted(len(prediction.queues), 'queue')} with all their units"
    parts = [_lost(prediction.lost)] if prediction.lost.messages else []
    if count := prediction.unreachable:
        parts.append(f"{counted(count, 'message')} out of reach of consumers")
    if count := prediction.misdelivered.messages:
        parts.append(f"{counted(count, 'message')} delivered under another topic or queue")
    if count := prediction.unrouted.messages:
        parts.append(f"{counted(count, 'message')} without a route")
    if count := prediction.light.messages:
        parts.append(f"{counted(count, 'message')} missing in light queues")
    if count := prediction.timers_lost:
        parts.append(f"{counted(count, 'timer message')} never delivered")
    parts += [step.message for step in prediction.later_steps] + not_read(prediction)
    return "; ".join(parts) or "nothing"


def _deleted_soon(seen: Examination) -> str:
    """Say what the broker deletes in its first day; empty for nothing."""
    expiring = seen.prediction and seen.prediction.retention
    if not expiring:
        return ""
    return f"{expiring.what}: {when_deleted(seen, expiring)}"


def _kind(seen: Examination) -> str:
    if not seen.is_whole_store:
        return f"a part of a store: {seen.about.recognised_as}"
    return "a DLedger node" if seen.about.commitlog == "dledger" else "a broker's store"


def _checked(seen: Examination) -> str:
    counts = seen.summary.counts
    counts_text = ", ".join(
        f"{counts.get(severity, 0):,} {severity}" for severity in reversed(Severity)
    )
    return f"{seen.summary.verdict}: {counts_text}"


def _diagnosis(seen: Examination) -> Row:
    host, prediction, counts = seen.host, seen.prediction, seen.summary.counts
    first = steps_for(seen)[0]
    return DIAGNOSIS.row(
        *(seen, seen.about, seen.end, host, seen.summary.account),
        prediction and prediction.retention,
        broker_version=seen.options.broker_version or seen.about.rules_of,
        denied=list(host.denied) if host else None,
        starts=False if host and host.is_read_only else prediction and prediction.starts,
        start=_start(seen),
        messages_lost=prediction and prediction.lost.messages,
        messages_unreachable=prediction and prediction.unreachable,
        messages_misdelivered=prediction and prediction.misdelivered.messages,
        messages_unrouted=prediction and prediction.unrouted.messages,
        messages_missing=seen.missing,
        verdict=seen.summary.verdict,
        **{f"{severity}s": counts.get(severity, 0) for severity in Severity},
        edits=len(seen.plan.edits) if seen.plan else None,
        next=first.command or first.advice,
    )
