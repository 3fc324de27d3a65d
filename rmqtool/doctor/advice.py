"""What is to be done about a store: cause, consequence, command, the first step first.

The order is that in which steps must be taken. What is around the files comes first: a repair that
cannot write, or goes by a wrong configuration, makes things worse. Then comes what a person has to
put right by hand, then `repair`, then what no repair reaches.
"""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import CLEANS_FORCIBLY, DELAY_LEVELS
from rmqtool.doctor.examination import REFUSES_RATIO
from rmqtool.findings.catalogue import Owner, Severity
from rmqtool.findings.registry_consume_queue import CQ_NOREC, CQ_RANGE
from rmqtool.findings.registry_index import IX_MISSING
from rmqtool.findings.registry_layout import FS_GAP, FS_NOLOG, FS_OWNER
from rmqtool.plural import counted
from rmqtool.repair.remedies import DLEDGER, NO_LOG, renames
from rmqtool.repair.state.absent import RESET
from rmqtool.repair.state.index import REBUILDING
from rmqtool.startup.delay_levels import UNDELIVERED
from rmqtool.startup.report import not_read
from rmqtool.store.place import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from rmqtool.doctor.examination import Examination, Host
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.plans import Left
    from rmqtool.startup.prediction import LaterStep
    from rmqtool.startup.retention import Retention

KEEPS: Final = f"{CLEANS_FORCIBLY.name}=false"
SHUTDOWN: Final = "sh bin/mqshutdown broker"
BRIDGE: Final = "--bridge-missing"
RESET_CONFIG: Final = "--reset-config"
CLAMP: Final = "--clamp-offsets"
SURVIVOR: Final = ("--output", "NEW", "--queue-offsets", "renumber")
PENDING: Final = ("--pending", "--output", "waiting.jsonl")
TWO_LOGS: Final = "the queues belong to another log than the commitlog"
LEAST_QUEUES: Final = 4
SOUND: Final = "nothing is damaged"
NO_REMEDY: Final = "none"
WARNING: Final = Severity.WARNING
FIRST: Final = "first "  # what a person has to do before a repair can be planned begins so


@dataclass(frozen=True, slots=True)
class AdviceStep:
    """One step."""

    cause: str  # what is the case
    consequence: str  # what follows if nothing is done
    command: str = ""  # to run next, ready to be pasted; empty where no command can do it
    advice: str = ""  # what to do beside it, or instead of it; empty where the command is all
    costs: bool = False  # whether the start costs something by this cause
    is_remark: bool = False  # whether nothing can be done about it, and nothing has to be


def steps_for(seen: Examination) -> list[AdviceStep]:
    """Give what is to be done, in order; of a sound store it is to start the broker.

    What stays for good, as a clock that was set back, comes after that.
    """
    if seen.is_live:
        return [_live(seen)]
    steps = [*_around(seen), *_lengths(seen), *_of_log(seen)]
    if not steps:
        edits, left = list(_repair(seen)) or list(_lost_keys(seen)), list(_left(seen))
        # A repair that saves nothing comes after what the start costs.
        first = [] if any(edit.costs for edit in edits) else [step for step in left if step.costs]
        remarks = [step for step in left if step.is_remark]
        rest = [step for step in left if step not in (*first, *remarks)]
        steps = [*_unread(seen), *_by_hand(seen), *first, *edits, *rest]
        if not steps:
            # A configuration that was not looked at may keep the files for longer.
            last, kept = [_sound(seen)], [*_retention(seen)]
            return [*last, *kept, *remarks] if seen.conf_beside else [*kept, *last, *remarks]
        steps += remarks
    return [*steps, *_retention(seen)]


def _live(seen: Examination) -> AdviceStep:
    is_harmful = _is_harmful(seen)
    after = f"if it dies, {_consequence(seen)}"
    if not _damage(seen) and (seen.prediction is None or seen.prediction.starts):
        return AdviceStep(
            "a broker runs on this store, and nothing is damaged so far",
            after if is_harmful else "new writes of the broker are not checked",
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
    if host.used <= host.deletes_above:
        return
    cause = f"the disk of the store is {host.used:.0%} used, {host.free:,} bytes are free"
    deletes = "a broker deletes the oldest commitlog files before their time"
    files = f": {seen.early.what}" if seen.early is not None else ""
    conf = seen.options.broker_conf
    place = shlex.quote(host.fullest or seen.store)
    is_hint = host.deletes_early and conf is None and not host.is_full
    if host.used > REFUSES_RATIO or (host.deletes_early and conf is None):
        consequence = "a broker refuses new messages"
        if host.is_full:
            consequence = "the broker does not come up, or refuses messages, or ends while it runs"
        elif host.deletes_early:
            also = " and refuses new messages" if host.used > REFUSES_RATIO else ""
            consequence = f"{deletes}{also}{files}"
        yield AdviceStep(
            cause,
            consequence,
            f"du -xah $(findmnt -nro TARGET -T {place}) | sort -h | tail -n 20",
            "these take most room: move away what is not the store's, before the start"
            f"{f'; {KEEPS} in broker.conf keeps the files' if is_hint else ''}",
        )
    if host.deletes_early and conf is not None:
        command = f"sed -i -e '$a {KEEPS}' {shlex.quote(conf)}"
        yield AdviceStep(cause, f"{deletes}{files}", command, "then it keeps them; still make room")


def _lengths(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what is to be done about lengths that are configured wrongly."""
    if not seen.lengths:
        return
    conf = seen.options.broker_conf or ""
    first, *more = seen.lengths
    also = f"; and {counted(len(more), 'length')} more" if more else ""
    lines = " ".join(f"-e '$a {length.key}={length.on_disk}'" for length in seen.lengths)
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
            advice=f"{DLEDGER}; {_survivor(seen)}",
        )


def _survivor(seen: Examination) -> str:
    """Say what helps where no other node of a group is left: a store of what is whole."""
    words = ["rmqtool", "rebuild-log", seen.store, *_conf_of(seen), *SURVIVOR]
    command = f"if no other node is left, {shlex.join(words)} makes a store of its whole messages"
    if seen.committed is None:
        return command
    committed, last = seen.committed
    return f"{command}; the group had committed entries up to {committed:,} of {last:,}"


def _unread(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what is to be done about what cannot be read."""
    harmed = [finding.path for finding in _damage(seen)]
    unread = [  # where damage of a file within is known, that is the cause
        (path, reason)
        for path, reason in seen.summary.account.reasons
        if not any(f"{harmed_path}/".startswith(f"{path}/") for harmed_path in harmed)
    ]
    if not unread:
        return
    path, reason = unread[0]
    also = f" and {len(unread) - 1:,} more" if len(unread) > 1 else ""
    yield AdviceStep(
        f"cannot be read: {path}{also}: {reason}",
        "the content is unknown; a broker most likely refuses to start",
        advice="fix the permission, or copy the disk past its bad sectors; then ask again",
    )


def _by_hand(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what has to be done before a repair can be planned."""
    if seen.plan is None:
        return
    asked = [left for left in seen.plan.left if left.why.startswith(FIRST)]
    for why in dict.fromkeys(left.why for left in asked):
        left = next(left for left in asked if left.why == why)
        cause, consequence = f"{left.path}: {left.message}", _consequence(seen)
        if why == NO_LOG:
            queues = {posixpath.dirname(left.path) for left in asked if left.code == CQ_RANGE}
            cause = f"the commitlog has no message, and {counted(len(queues), 'queue')} with units"
            cause += " past its end: a new log beside the queues of an older one"
            consequence = "a broker that is started on it empties these queues; it has no message"
        yield AdviceStep(cause, consequence, _moves(seen, renames(why)), why.removeprefix(FIRST))


def _moves(seen: Examination, pairs: list[tuple[str, str]]) -> str:
    """Give the command that renames files of a store; one whose new name is taken stays."""
    if not pairs or seen.host is None:
        return ""
    words = [shlex.join(["mv", "-n", source, other]) for source, other in pairs]
    return f"({' && '.join([f'cd {shlex.quote(seen.store)}', *words])})"


def _repair(seen: Examination) -> Iterator[AdviceStep]:
    """Yield the repair, where it has something to do that matters."""
    plan = seen.plan
    if plan is None or not (_damage(seen) or _is_mendable(seen) or seen.missing):
        return
    if any(left.why.startswith(FIRST) for left in plan.left):
        return
    has_gap = any(left.code == FS_GAP for left in plan.left)
    lacks_config = any(left.why == RESET for left in plan.left)
    if not plan.edits and not has_gap and not lacks_config:
        return
    options = ([BRIDGE] if has_gap else []) + ([RESET_CONFIG] if lacks_config else [])
    restore = "if a copy of the missing files exists, put it back instead" if options else ""
    left = frozenset() if options else frozenset(left.path for left in plan.left)
    yield AdviceStep(
        _worst(seen, left),
        _consequence(seen, left),
        _repair_command(seen, *options),
        restore,
        costs=bool(_costs(seen, left)),
    )


def _lost_keys(seen: Examination) -> Iterator[AdviceStep]:
    """Yield the repair of a store, sound else, in which keys lead to no message."""
    lost = [
        finding
        for finding in seen.findings
        if finding.code == IX_MISSING and finding.severity is not Severity.NOTE
    ]
    if lost and not _damage(seen) and seen.plan is not None and seen.plan.edits:
        yield AdviceStep(
            f"{lost[0].code} {lost[0].path}: {lost[0].message}",
            f"{IX_MISSING.consequence}; {_consequence(seen)}",
            _repair_command(seen),
        )


def _repair_command(seen: Examination, *options: str) -> str:
    """Give the command that repairs the store, or a copy of what an archive holds."""
    words = ["rmqtool", "repair", seen.store, *seen.options.words, *options]
    return shlex.join([*words, *_where(seen)])


def _where(seen: Examination) -> tuple[str, ...]:
    """Say where a command writes: a store in an archive is not changed."""
    is_archive = seen.host is None and SEPARATOR in seen.store
    return ("--output", "DIR") if is_archive else ("--in-place",)


def _retention(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what keeps messages that no group has consumed and that the broker deletes soon."""
    expiring = seen.prediction and seen.prediction.retention
    if not expiring or expiring.messages_unconsumed == 0:
        return
    conf = seen.options.broker_conf
    if conf is not None:
        command = f"sed -i -e '$a fileReservedTime={expiring.hours_to_keep}' {shlex.quote(conf)}"
    else:
        folders = {posixpath.join(seen.store, posixpath.dirname(path)) for path in expiring.paths}
        command = f"touch -c {' '.join(f'{shlex.quote(folder)}/*' for folder in sorted(folders))}"
    yield AdviceStep(
        f"{expiring.which} {expiring.why}",
        f"the broker deletes them {when_deleted(seen, expiring)}",
        command,
        "to keep them for three days more, run this before the start",
    )


def when_deleted(seen: Examination, expiring: Retention) -> str:
    """Say when the broker deletes what has expired, in the midst of a sentence."""
    if seen.host is not None and seen.host.used * 100 > expiring.full_percent:
        return f"at once, as the disk is {seen.host.used:.0%} used"
    return expiring.when


def _left(seen: Examination) -> Iterator[AdviceStep]:
    """Yield what no repair reaches."""
    plan = seen.plan
    if plan is None:
        if _damage(seen):
            yield AdviceStep(_worst(seen), _consequence(seen), advice=_damage(seen)[0].repair)
        return
    steps = seen.prediction.later_steps if seen.prediction is not None else ()
    alike: dict[tuple[str, str], list[Left]] = {}
    for left in plan.left:
        is_reported = left.code in {FS_GAP, FS_OWNER} or left.why == RESET
        if not is_reported and not left.why.startswith(FIRST):
            alike.setdefault((left.code, left.why), []).append(left)
    for (_, why), (left, *more) in alike.items():
        paths = {left.path, *(other.path for other in more)}
        costs = ", ".join(step.message for step in steps if _is_of(step, paths))
        also = f"; and {len(more):,} more of the kind" if more else ""
        yield AdviceStep(
            f"{left.path}: {left.message}{also}",
            f"starting it now costs: {costs}" if costs else left.code.consequence,
            _curing(seen, why),
            why,
            costs=bool(costs),
            is_remark=not costs and why.startswith(NO_REMEDY) and left.code.severity is WARNING,
        )


def _is_of(step: LaterStep, paths: Iterable[str]) -> bool:
    """Tell whether a step of a start is about one of these files, or the directory of one."""
    return any(step.path in {path, posixpath.dirname(path)} for path in paths)


def _curing(seen: Examination, why: str) -> str:
    """Give the command that a remedy names, whole and for this store; empty where it names none."""
    if REBUILDING in why:
        words = ["rmqtool", "rebuild-index", seen.store, *seen.options.words]
        return shlex.join([*words, *_where(seen)])
    option = next((option for option in (CLAMP, RESET_CONFIG) if option in why), "")
    return _repair_command(seen, option) if option else ""


def _sound(seen: Examination) -> AdviceStep:
    """Give the last step: what to do with a store in which nothing is to be repaired."""
    if not seen.is_whole_store:
        consequence = "only a whole store tells whether a broker starts on it"
        command = shlex.join(["rmqtool", "info", seen.store])
        return AdviceStep(
            f"nothing is damaged in this {seen.about.recognised_as}", consequence, command
        )
    return _costly(seen) if _is_harmful(seen) else _start(seen)


def _costly(seen: Examination) -> AdviceStep:
    """Give what helps where a start costs something that no repair saves."""
    words, advice = ["rmqtool", "startup", seen.store, *seen.options.words], ""
    conf = seen.options.broker_conf
    steps = seen.prediction.later_steps if seen.prediction is not None else ()
    if conf is not None and any(step.step == UNDELIVERED for step in steps):
        line = f"{DELAY_LEVELS.name}={DELAY_LEVELS.default}"
        return AdviceStep(
            f"{conf}: {DELAY_LEVELS.name} has fewer levels than messages were delayed by",
            _consequence(seen),
            f"sed -i -e '$a {line}' {shlex.quote(conf)}",
            "these are the default levels; if producers used others, write theirs",
        )
    if seen.prediction is not None and seen.prediction.timers_lost:
        words = ["rmqtool", "extract", seen.store, *_conf_of(seen), *PENDING]
        advice = "this keeps what waits; once a broker runs, rmqtool send gives it the messages"
    return AdviceStep(SOUND, _consequence(seen), shlex.join(words), advice)


def _conf_of(seen: Examination) -> tuple[str, ...]:
    """Give the option that names the configuration again."""
    conf = seen.options.broker_conf
    return ("--broker-conf", conf) if conf is not None else ()


def _start(seen: Examination) -> AdviceStep:
    """Let the broker be started, unless it goes by a configuration that was not looked at."""
    host = seen.host
    who = "" if host is None or host.owner == host.user else f" as {host.owner}"
    if seen.missing:
        return AdviceStep(_worst(seen), _consequence(seen), advice=f"start the broker{who}")
    if seen.prediction is None:
        cause = "nothing is damaged, and a start cannot be predicted"
        return AdviceStep(cause, "no loss is known of", advice=f"start the broker{who}")
    if seen.conf_beside:
        return AdviceStep(
            f"nothing is damaged, but {seen.conf_beside} was not looked at",
            "a broker that starts by it may refuse other lengths, or look for files elsewhere",
            shlex.join(["rmqtool", "doctor", seen.store, "--broker-conf", seen.conf_beside]),
        )
    cost = "nothing is lost by starting"
    if seen.prediction.retention is not None:
        cost = "starting loses nothing; see above for later deletions"
    return AdviceStep(SOUND, cost, advice=f"start the broker{who}")


def _is_harmful(seen: Examination) -> bool:
    """Tell whether a start would fail, or cost something."""
    prediction = seen.prediction
    return prediction is not None and (not prediction.starts or prediction.costs)


def _is_mendable(seen: Examination) -> bool:
    """Tell whether a repair may save what a start costs: it saves no timer that waits too long."""
    prediction = seen.prediction
    if prediction is None or not _is_harmful(seen):
        return False
    timers = bool(prediction.timers_lost) and prediction.starts
    others = prediction.messages_costed > prediction.timers_lost or prediction.later_steps
    is_suspect = any(finding.severity is not Severity.NOTE for finding in seen.findings)
    return bool(not timers or others or prediction.unread or is_suspect)


def _costs(seen: Examination, left: Container[str] = ()) -> list[str]:
    """Say what a start costs, but for what files cost that no repair reaches."""
    prediction = seen.prediction
    if prediction is None or not prediction.costs:
        return []
    lost = prediction.lost.messages
    parts = [
        (lost, "message", "cut off the log"),
        (prediction.unreachable, "message", "out of reach of consumers"),
        (prediction.misdelivered.messages, "message", "delivered under another topic or queue"),
        (prediction.unrouted.messages, "message", "without a route to them"),
        (prediction.light.messages, "message", "missing in light queues"),
        (prediction.timers_lost, "timer message", "never delivered"),
        (len(prediction.segments_deleted) if lost else 0, "commitlog file", "deleted"),
    ]
    costs = [f"{counted(count, what)} {how}" for count, what, how in parts if count]
    costs += [step.message for step in prediction.later_steps if step.path not in left]
    return costs + not_read(prediction)


def _consequence(seen: Examination, left: Container[str] = ()) -> str:
    """Say what a start costs; where that is nothing, what the worst finding does.

    Args:
        seen: the store.
        left: files that no repair reaches: what they cost stands in steps of their own.
    """
    prediction = seen.prediction
    if prediction is not None and prediction.refusals:
        return "the broker refuses to start"
    if prediction is not None and not prediction.starts:
        return "the broker never comes up"
    if costs := _costs(seen, left):
        now = "" if seen.is_live else " now"
        return f"starting it{now} costs: {', '.join(costs)}"
    if worst := _damage(seen, left):
        also = "; the start itself loses nothing" if prediction is not None else ""
        return f"{worst[0].code.consequence}{also}"
    return "starting the broker loses nothing"


def _damage(seen: Examination, left: Container[str] = ()) -> list[Finding]:
    findings = [finding for finding in seen.findings if finding.severity is Severity.DAMAGE]
    return [finding for finding in findings if finding.path not in left] or findings


def _worst(seen: Examination, left: Container[str] = ()) -> str:
    """Say what the worst finding is: of the log where it is damaged, as the rest follows it."""
    findings = _damage(seen, left) or [
        finding for finding in seen.findings if finding.severity is Severity.WARNING
    ]
    if not findings:
        return f"{counted(seen.missing, 'message')} lost already" if seen.missing else SOUND
    first = min(findings, key=lambda finding: not finding.path.startswith("commitlog"))
    more = len(findings) - 1
    also = f"; and {counted(more, 'finding')} more" if more else ""
    headline = f"{TWO_LOGS}: " if _is_of_two(seen) else ""
    return f"{headline}{first.code} {first.path}: {first.message}{also}"


def _is_of_two(seen: Examination) -> bool:
    """Tell whether most queues lead to no message of a log that is sound itself."""
    if seen.prediction is None or any(finding.code.owner is Owner.LOG for finding in _damage(seen)):
        return False
    queues = {
        posixpath.dirname(finding.path) for finding in _damage(seen) if finding.code == CQ_NOREC
    }
    return 2 * len(queues) > max(len(seen.prediction.queues), LEAST_QUEUES)
