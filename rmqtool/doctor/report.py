"""An examination as rows: for a person one table of a screen, for programs all of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import CLEANS_FORCIBLY
from rmqtool.doctor.examination import DELETES_RATIO, REFUSES_RATIO
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import FINDINGS
from rmqtool.findings.registry_conf import BC_KEY
from rmqtool.findings.registry_layout import FS_GAP, FS_NOLOG, FS_OWNER
from rmqtool.repair import result as repair
from rmqtool.repair.remedies import DLEDGER, renames
from rmqtool.repair.state.absent import RESET
from rmqtool.rows import sentences
from rmqtool.startup import report as startup
from rmqtool.startup.report import not_read, outcome, verdict
from rmqtool.table import Column, Table, Type
from rmqtool.tables.lost_messages import LOST_MESSAGES
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.doctor.examination import Examination, Host
    from rmqtool.findings.finding import Finding
    from rmqtool.rows import Row, Rows
    from rmqtool.startup.prediction import Loss, Prediction


NEXT: Final = "next"  # the line with the command, which stays whole to be copied
SHOWN_KEYS: Final = 6  # of a broker.conf, that a broker ignores
SHOWN_STEPS: Final = 2  # a screen at night: more is in the other formats
DIAGNOSIS: Final = Table(
    "diagnosis",
    "a store as a whole",
    (
        Column("path", Type.TEXT, "the store root, or what was asked for"),
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
            "user that runs the broker, as told, else who owns most of the store",
        ),
        Column("user", Type.TEXT, "user who asked"),
        Column("denied", Type.TEXTS, "files that the user of the broker cannot read and write"),
        Column("is_read_only", Type.BOOLEAN, "the file system takes no writes"),
        Column("free", Type.INT64, "bytes that are free on the disk of the store", "bytes"),
        Column("starts", Type.BOOLEAN, "the broker would start; null where that is not known"),
        Column("start", Type.TEXT, "what a start would do, in a sentence"),
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
        Column("cause", Type.TEXT, "what is the case"),
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
        Column("path", Type.TEXT, "file or directory, or what was not looked at"),
        Column("reason", Type.TEXT, "what stands in the way"),
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
    found = [
        DIAGNOSIS.rows([[_diagnosis(seen)]]),
        STEPS.rows([[STEPS.row(step) for step in steps_for(seen)]]),
        FINDINGS.rows([[finding.row() for finding in seen.findings]]),
        LOST_MESSAGES.rows([seen.lost_messages]),
        UNREAD.rows([[{"path": path, "reason": reason} for path, reason in unread]]),
    ]
    if seen.prediction is not None:
        found += [
            one
            for one in startup.report(seen.prediction)
            if one.name not in {"verdict", STEPS.name}
        ]
    plan = repair.rows_of(seen.plan) if seen.plan else []
    return found + [one for one in plan if one.name != LOST_MESSAGES.name]


def screen(seen: Examination) -> Rows:
    """Give what a person reads, one screen of it."""
    return sentences([line for line in _lines(seen) if line[1]], DIAGNOSIS.name, (NEXT,))


def summary(seen: Examination) -> str:
    """Say what is not on the screen; empty when nothing is."""
    hidden = len(steps_for(seen)) - SHOWN_STEPS
    return f"{numbered(hidden, 'step')} more: --format json" if hidden > 0 else ""


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
    yield "what it is", f"{_kind(seen)}; release {about.release}"
    yield "stopped", about.stopped
    yield "commitlog", _log(seen)
    yield "start", _start(seen)
    if prediction is not None:
        yield "lost if started", _cost(prediction)
    if prediction is not None or seen.missing:
        yield "lost already", _missing(seen)
    yield "checked", _checked(seen)
    ignored = [finding.message for finding in seen.findings if finding.code == BC_KEY]
    yield from (("broker.conf", message) for message in ignored[:SHOWN_KEYS])
    if len(ignored) > SHOWN_KEYS:
        yield "broker.conf", f"{numbered(len(ignored) - SHOWN_KEYS, 'line')} more: --format json"
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
    records = f"{seen.summary.account.records:,} records"
    return f"{numbered(seen.files, 'file')}, {seen.size:,} bytes, {records}{counts_text}"


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
    count = f"{numbered(loss.messages, 'message')} of {numbered(len(loss.topics), 'topic')}"
    first, last = loss.first_store_timestamp, loss.last_store_timestamp
    if first is None or last is None:
        return count
    return f"{count}, stored {iso_time(first)} to {iso_time(last)}"


def _missing(seen: Examination) -> str:
    known = seen.prediction.missing if seen.prediction else None
    if known is not None and known.messages == seen.missing:
        return _lost(known)
    return numbered(seen.missing, "message")


def _cost(prediction: Prediction) -> str:
    if prediction.has_no_log and prediction.queues:
        return f"{numbered(len(prediction.queues), 'queue')} with all their units"
    parts = [_lost(prediction.lost)] if prediction.lost.messages else []
    if count := prediction.unreachable:
        parts.append(f"{numbered(count, 'message')} out of reach of consumers")
    if count := prediction.misdelivered.messages:
        parts.append(f"{numbered(count, 'message')} delivered under another topic or queue")
    if count := prediction.unrouted.messages:
        parts.append(f"{numbered(count, 'message')} without a route")
    if count := prediction.light.messages:
        parts.append(f"{numbered(count, 'message')} missing in light queues")
    if count := prediction.timers_lost:
        parts.append(f"{numbered(count, 'timer message')} never delivered")
    parts += [step.message for step in prediction.further] + not_read(prediction)
    return "; ".join(parts) or "nothing"


def _kind(seen: Examination) -> str:
    if not seen.is_whole_store:
        return f"a part of a store: {seen.about.recognised_as}"
    return "a DLedger node" if seen.about.commitlog == "dledger" else "a broker's store"


def _checked(seen: Examination) -> str:
    counts = seen.summary.counts
    counts_text = ", ".join(f"{counts.get(one, 0):,} {one}" for one in reversed(Severity))
    return f"{seen.summary.verdict}: {counts_text}"


def _diagnosis(seen: Examination) -> Row:
    host, prediction, counts = seen.host, seen.prediction, seen.summary.counts
    first = steps_for(seen)[0]
    return DIAGNOSIS.row(
        *(seen, seen.about, seen.end, host, seen.summary.account),
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


# Cause, consequence, command: what is to be done about a store, the first step first.
#
# The order is that in which steps must be taken. What is around the files comes first: a repair
# that
# cannot write, or goes by a wrong configuration, makes things worse. Then comes what a person has
# to
# put right by hand, then `repair`, then what no repair reaches.


KEEPS: Final = f"{CLEANS_FORCIBLY.name}=false"
SHUTDOWN: Final = "sh bin/mqshutdown broker"
BRIDGE: Final = "--bridge-missing"
RESET_CONFIG: Final = "--reset-config"
FIRST: Final = "first "  # what a person has to do before a repair can be planned begins so


@dataclass(frozen=True, slots=True)
class AdviceStep:
    """One step."""

    cause: str  # what is the case
    consequence: str  # what follows if nothing is done
    command: str = ""  # to run next, ready to be pasted; empty where no command can do it
    advice: str = ""  # what to do beside it, or instead of it; empty where the command is all


def steps_for(seen: Examination) -> list[AdviceStep]:
    """Give what is to be done, in order; the last step of a sound store is to start the broker."""
    if seen.is_live:
        return [_live(seen)]
    found = [*_around(seen), *_lengths(seen), *_of_log(seen)]
    if not found:
        found = [*_unread(seen), *_by_hand(seen), *_repair(seen), *_left(seen)]
    return found or [_sound(seen)]


def _live(seen: Examination) -> AdviceStep:
    is_harmful = _is_harmful(seen)
    after = f"if it dies, {_consequence(seen)}"
    if not _damage(seen) and (seen.prediction is None or seen.prediction.starts):
        return AdviceStep(
            "a broker runs on this store, and nothing is damaged so far",
            after if is_harmful else "what it writes now is not judged",
            advice="nothing; ask again once the broker is down",
        )
    cause = _worst(seen) if _damage(seen) else "nothing is damaged so far"
    if not is_harmful:
        after = "its next start reads the damaged files"
    return AdviceStep(
        f"a broker runs on this store; {cause}",
        f"it serves what it has in memory; {after}",
        SHUTDOWN,
        "let consumers catch up, stop the broker, then ask again",
    )


def _around(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what is to be done about disk and rights."""
    host = seen.host
    if host is None:
        return
    root = shlex.quote(seen.store)
    if host.is_read_only:
        yield AdviceStep(
            "the file system of the store is mounted read-only",
            "the broker refuses to start, and nothing can be repaired in place",
            f"mount -o remount,rw $(findmnt -nro TARGET -T {root})",
            "look at dmesg first, as a failing disk is mounted read-only; then, as root",
        )
    if host.denied:
        first, more = host.denied[0], len(host.denied) - 1
        also = f" and {more:,} more" if more else ""
        yield AdviceStep(
            f"the broker runs as {host.owner} and cannot read and write {first}{also}",
            _consequence(seen) if _is_harmful(seen) else FS_OWNER.consequence,
            f"chown -R {host.owner}: {root} && chmod -R u+rwX {root}",
            "give the files to the broker's user; run this as root",
        )
    yield from _disk(seen, host)


def _disk(seen: Examination, host: Host) -> Iterator[AdviceStep]:
    """Yield what is to be done about a disk that is too full.

    Where it must be emptied in any case that comes first: no file can be changed on a full disk.
    """
    if host.used <= DELETES_RATIO:
        return
    cause = f"the disk of the store is {host.used:.0%} used, {host.free:,} bytes are free"
    deletes = "a broker deletes the oldest commitlog files before their time"
    conf = seen.options.broker_conf
    place = shlex.quote(host.fullest or seen.store)
    is_hint = host.deletes_early and conf is None and not host.is_full
    if host.used > REFUSES_RATIO or (host.deletes_early and conf is None):
        consequence = "a broker refuses new messages"
        if host.is_full:
            consequence = "the broker does not come up, or refuses messages, or ends while it runs"
        elif host.deletes_early:
            also = " and refuses new messages" if host.used > REFUSES_RATIO else ""
            consequence = f"{deletes}{also}"
        yield AdviceStep(
            cause,
            consequence,
            f"du -xah $(findmnt -nro TARGET -T {place}) | sort -h | tail -n 20",
            "these take most room: move away what is not the store's, before the start"
            f"{f'; {KEEPS} in broker.conf keeps the files' if is_hint else ''}",
        )
    if host.deletes_early and conf is not None:
        command = f"sed -i -e '$a {KEEPS}' {shlex.quote(conf)}"
        yield AdviceStep(cause, deletes, command, "then it keeps them; make room all the same")


def _lengths(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what is to be done about lengths that are configured wrongly."""
    if not seen.lengths:
        return
    conf = seen.options.broker_conf or ""
    first, *more = seen.lengths
    also = f"; and {numbered(len(more), 'length')} more" if more else ""
    lines = " ".join(f"-e '$a {length.key}={length.found}'" for length in seen.lengths)
    yield AdviceStep(
        f"{conf}: {first}{also}",
        "the broker refuses to start, or reads records and units at wrong places",
        f"sed -i {lines} {shlex.quote(conf)}",
        "the command appends what the files have; the last line of a key counts",
    )


def _of_log(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what is to be done where there is no log, or one of a group."""
    for finding in seen.findings:
        if finding.code == FS_NOLOG:
            yield AdviceStep(finding.message, finding.code.consequence, advice=finding.code.remedy)
    if seen.about.commitlog == "dledger" and _damage(seen):
        yield AdviceStep(
            _worst(seen),
            "this node may lose or repeat messages; its group has copies",
            advice=DLEDGER,
        )


def _unread(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what is to be done about what cannot be read."""
    harmed = [one.path for one in _damage(seen)]
    unread = [  # where damage of a file within is known, that is the cause
        (path, reason)
        for path, reason in seen.summary.account.reasons
        if not any(f"{one}/".startswith(f"{path}/") for one in harmed)
    ]
    if not unread:
        return
    path, reason = unread[0]
    also = f" and {len(unread) - 1:,} more" if len(unread) > 1 else ""
    yield AdviceStep(
        f"cannot be read: {path}{also}: {reason}",
        "nothing is known of what is in there; a broker most likely refuses to start",
        advice="fix the permission, or copy the disk past its bad sectors; then ask again",
    )


def _by_hand(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what has to be done before a repair can be planned."""
    if seen.plan is None:
        return
    asked = [one for one in seen.plan.left if one.why.startswith(FIRST)]
    for why in dict.fromkeys(one.why for one in asked):
        cause = next(one.message for one in asked if one.why == why)
        yield AdviceStep(
            cause, _consequence(seen), _moves(seen, renames(why)), why.removeprefix(FIRST)
        )


def _moves(seen: Examination, pairs: list[tuple[str, str]]) -> str:
    """Give the command that renames files of a store; one whose new name is taken stays."""
    if not pairs or seen.host is None:
        return ""
    words = [shlex.join(["mv", "-n", one, other]) for one, other in pairs]
    return f"({' && '.join([f'cd {shlex.quote(seen.store)}', *words])})"


def _repair(seen: Examination) -> Iterator[AdviceStep]:
    """Yield the repair, where it has something to do that matters."""
    plan = seen.plan
    if plan is None or not (_damage(seen) or _is_harmful(seen) or seen.missing):
        return
    if any(one.why.startswith(FIRST) for one in plan.left):
        return
    has_gap = any(one.code == FS_GAP for one in plan.left)
    lacks_config = any(one.why == RESET for one in plan.left)
    if not plan.edits and not has_gap and not lacks_config:
        return
    options = ([BRIDGE] if has_gap else []) + ([RESET_CONFIG] if lacks_config else [])
    words = [*seen.options.words, *options]
    restore = "if a copy of what is missing exists, put it back instead" if options else ""
    command = shlex.join(["rmqtool", "repair", seen.store, *words, "--in-place"])
    yield AdviceStep(_worst(seen), _consequence(seen), command, restore)


def _left(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what no repair reaches."""
    plan = seen.plan
    if plan is None:
        if _damage(seen):
            yield AdviceStep(_worst(seen), _consequence(seen), advice=_damage(seen)[0].repair)
        return
    for one in plan.left:
        is_said = one.code in {FS_GAP, FS_OWNER} or one.why == RESET
        if not is_said and not one.why.startswith(FIRST):
            yield AdviceStep(f"{one.path}: {one.message}", one.code.consequence, advice=one.why)


def _sound(seen: Examination) -> AdviceStep:
    host = seen.host
    who = "" if host is None or host.owner == host.user else f" as {host.owner}"
    if not seen.is_whole_store:
        consequence = "only a whole store tells whether a broker starts on it"
        command = shlex.join(["rmqtool", "info", seen.store])
        return AdviceStep(
            f"nothing is damaged in this {seen.about.recognised_as}", consequence, command
        )
    if _is_harmful(seen):
        command = shlex.join(["rmqtool", "startup", seen.store])
        return AdviceStep("nothing is damaged", _consequence(seen), command)
    if seen.missing:
        return AdviceStep(_worst(seen), _consequence(seen), advice=f"start the broker{who}")
    if seen.prediction is None:
        cause = "nothing is damaged, and a start cannot be predicted"
        return AdviceStep(cause, "no loss is known of", advice=f"start the broker{who}")
    cost = "nothing is lost by starting"
    return AdviceStep("nothing is damaged", cost, advice=f"start the broker{who}")


def _is_harmful(seen: Examination) -> bool:
    """Tell whether a start would fail, or cost something."""
    prediction = seen.prediction
    return prediction is not None and (not prediction.starts or prediction.costs)


def _consequence(seen: Examination) -> str:
    """Say what a start costs; where that is nothing, what the worst finding does."""
    prediction = seen.prediction
    if prediction is not None and prediction.refusals:
        return "the broker refuses to start"
    if prediction is not None and not prediction.starts:
        return "the broker never comes up"
    if prediction is not None and prediction.costs:
        segments = len(prediction.segments_deleted)
        parts = [
            (prediction.lost.messages, "message", "cut off the log"),
            (prediction.unreachable, "message", "out of reach of consumers"),
            (prediction.misdelivered.messages, "message", "delivered under another topic or queue"),
            (prediction.unrouted.messages, "message", "without a route to them"),
            (prediction.light.messages, "message", "missing in light queues"),
            (prediction.timers_lost, "timer message", "never delivered"),
            (segments, "commitlog file", "deleted"),
        ]
        costs = [f"{numbered(count, what)} {how}" for count, what, how in parts if count]
        costs += [step.message for step in prediction.further] + not_read(prediction)
        now = "" if seen.is_live else " now"
        return f"starting it{now} costs: {', '.join(costs)}"
    if worst := _damage(seen):
        also = "; the start itself loses nothing" if prediction is not None else ""
        return f"{worst[0].code.consequence}{also}"
    return "starting the broker loses nothing"


def _damage(seen: Examination) -> list[Finding]:
    return [finding for finding in seen.findings if finding.severity is Severity.DAMAGE]


def _worst(seen: Examination) -> str:
    """Say what the worst finding is: of the log where it is damaged, as the rest follows it."""
    found = _damage(seen) or [
        finding for finding in seen.findings if finding.severity is Severity.WARNING
    ]
    if not found:
        return f"{numbered(seen.missing, 'message')} lost already"
    first = min(found, key=lambda one: not one.path.startswith("commitlog"))
    more = len(found) - 1
    also = f"; and {numbered(more, 'finding')} more" if more else ""
    return f"{first.code} {first.path}: {first.message}{also}"


def numbered(count: int, one: str) -> str:
    """Give a number of things, with separators: `1,383 messages`."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"
