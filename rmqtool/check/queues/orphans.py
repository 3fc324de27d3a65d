"""Find queues that no configured topic has: FS-ORPHAN.

Brokers that delete a topic delete its queues at once, so a queue without a topic tells of a lost
`topics.json`: nobody is told where the topic is, and its messages wait. A queue past the configured
number is what is left where somebody has lowered it.
Source: TopicConfigManager, AdminBrokerProcessor#deleteTopic, PullMessageProcessor, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import is_made_by_brokers
from rmqtool.broker.rules import Rules
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_layout import FS_ORPHAN
from rmqtool.formats import config_shapes
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.queues.discovery import UNIT_FAMILIES, by_topic
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.entry import EntryKind
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.tree import Store


MOST_LOOKED_AT: Final = 1000  # units of a queue, none of which may be of its topic
BATCHES: Final = "batch_queues"
REFUSE: Final = "brokers refuse to start on its batch queues"
REFUSE_PLAIN: Final = "has batch queues; brokers refuse to start on its consume queues"
FEWER: Final = "has fewer queues in topics.json"
UNCONFIGURED: Final = "is not in topics.json"
HOLDING: Final = "its queues hold messages of it"
HOLDING_NONE: Final = "its queues hold no message of its own"


def queue_counts(document: config_shapes.Document) -> dict[str, int]:
    """Give how many queues each configured topic has."""
    return {
        topic.topic: max(topic.read_queue_nums or 0, topic.write_queue_nums or 0)
        for topic in config_shapes.topics(document)
    }


def is_past(counts: dict[str, int], topic: str, queue_id: int) -> bool:
    """Tell whether a queue is one that its topic is not configured to have, as each below 0."""
    return not is_made_by_brokers(topic) and not 0 <= queue_id < counts.get(topic, 0)


def of_made(counts: dict[str, int], topic: str, *, has_metadata_2: bool) -> str:
    """Say what a validation will say of queues that a repair makes past the configuration.

    Args:
        counts: how many queues each configured topic has.
        topic: whose queues they are, and they hold messages of it.
        has_metadata_2: whether topics are configured elsewhere, which is a finding of its own.

    Returns:
        A sentence; empty for nothing.
    """
    if topic in counts:
        return f"topic {topic} {FEWER}"
    return "" if has_metadata_2 else f"topic {topic} {UNCONFIGURED}; {HOLDING}"


def past_of(counts: dict[str, int], topic: str, numbers: Sequence[int]) -> list[int]:
    """Give those of some queues of a topic that it is not configured to have."""
    if not numbers or not any(is_past(counts, topic, end(numbers)) for end in (min, max)):
        return []
    return [number for number in numbers if is_past(counts, topic, number)]


def check(inspection: Inspection) -> Iterator[Finding]:
    """Compare the queues of each topic with its configuration."""
    document = inspection.document(TOPICS_JSON)
    if document is None:
        if inspection.units("queues"):
            is_there = bool(inspection.store.config(TOPICS_JSON).problems)
            why = "cannot be read" if is_there else "is not there"
            inspection.leave_out("queues without a topic", f"config/topics.json {why}")
        yield from _of_batches(inspection, {})
        return
    counts = queue_counts(document)
    yield from _of_extensions(inspection, counts)
    yield from _of_batches(inspection, counts)
    orphans: dict[str, list[QueueUnits]] = {}
    for name in UNIT_FAMILIES:
        units = inspection.units(name)
        for topic, numbers in by_topic(units):
            past = past_of(counts, topic, numbers)
            if past and not (name == BATCHES and _are_refused(inspection, counts, topic)):
                orphans.setdefault(topic, []).extend(units[topic, number] for number in past)
    for topic, queues in orphans.items():
        if topic in counts:
            yield _finding(topic, queues, FEWER, Severity.WARNING)
        elif not inspection.scope.has_metadata_2:  # else a finding of its own
            try:
                has_messages = have_messages(inspection.store, queues)
            except UnreadablePath:  # said elsewhere
                yield _finding(topic, queues, UNCONFIGURED, Severity.WARNING)
                continue
            holding = HOLDING if has_messages else HOLDING_NONE
            severity = Severity.DAMAGE if has_messages else Severity.NOTE
            yield _finding(topic, queues, f"{UNCONFIGURED}; {holding}", severity)


def _are_refused(inspection: Inspection, counts: dict[str, int], topic: str) -> bool:
    """Tell whether brokers refuse the batch queues of a topic, as it is in no `topics.json`."""
    is_known = topic in counts or inspection.scope.has_metadata_2
    return not is_known and Rules(inspection.scope.version).has_batch_queues


def refused_plain(inspection: Inspection) -> frozenset[str]:
    """Give the topics whose consume queues brokers refuse, as they want batch queues."""
    wants_batches = Rules(inspection.scope.version).has_batch_queues
    return (wants_batches and inspection.store.batch_topics) or frozenset()


def _of_batches(inspection: Inspection, counts: dict[str, int]) -> Iterator[Finding]:
    """Name topics whose batch queues brokers take for consume queues, and refuse.

    Source: ConsumeQueueStore#queueTypeShouldBe, 5.0.0 to 5.5.0.
    """
    orphans: dict[str, list[QueueUnits]] = {}
    batches, queues_of = inspection.units(BATCHES), inspection.units("queues")
    for topic, queue_id in batches:
        if _are_refused(inspection, counts, topic):
            orphans.setdefault(topic, []).append(batches[topic, queue_id])
    for topic, queues in orphans.items():
        what = f"{UNCONFIGURED}; {REFUSE}"
        yield _finding(topic, queues, what, Severity.DAMAGE)
    without_plain = refused_plain(inspection)
    plain: dict[str, list[QueueUnits]] = {}
    for topic, queue_id in queues_of if without_plain else ():
        if topic in without_plain:
            plain.setdefault(topic, []).append(queues_of[topic, queue_id])
    for topic, queues in plain.items():
        yield _finding(topic, queues, REFUSE_PLAIN, Severity.DAMAGE)


def _of_extensions(inspection: Inspection, counts: dict[str, int]) -> Iterator[Finding]:
    """Name extension files of no topic and no consume queue: a queue opens its own, and no other.

    Source: ConsumeQueue, ConsumeQueueExt, 4.9.3 to 5.5.1.
    """
    known = {topic for topic, _ in inspection.units("queues")} | counts.keys()
    for artefact in inspection.store.branches_of(ArtefactKind.CONSUME_QUEUE_EXT):
        try:
            names = artefact.place.names()
        except UnreadablePath:  # said elsewhere
            continue
        for topic, kind in names:
            if kind is EntryKind.DIRECTORY and topic not in known and not is_made_by_brokers(topic):
                at = At(f"{artefact.path}/{topic}", topic=topic)
                message = f"topic {topic} has extensions and no consume queue: no broker reads them"
                yield finding(FS_ORPHAN, at, message, severity=Severity.NOTE)


def _finding(topic: str, queues: list[QueueUnits], what: str, severity: Severity) -> Finding:
    numbers = ", ".join(map(str, sorted(units.queue_id for units in queues)))
    path = queues[0].path  # of a directory, or of a database, which has none for a topic
    at = At(path.rpartition("/")[0] or path, topic=topic)
    message, actual = f"topic {topic} {what}", f"queues {numbers}"
    return finding(FS_ORPHAN, at, message, actual=actual, severity=severity)


def have_messages(store: Store, queues: list[QueueUnits]) -> bool:
    """Tell whether a unit of a queue stands for a record of its topic in the log.

    Where another topic's records were dispatched to it, too, their own queues have them. The first
    and last unit tell nothing where their records are damaged, have expired, or lie past the log.
    """
    with LogReader(store.old_commitlog, store.commitlog) as log:
        return any(
            log.topic_of(head) == units.topic
            for units in queues
            for offset in islice(_in_log(store, units), MOST_LOOKED_AT)
            if (head := log.head_at(offset)) is not None
        )


def _in_log(store: Store, units: QueueUnits) -> Iterator[int]:
    """Yield the places in the log that the units of a queue name, the older first."""
    start, end = store.commitlog.start, store.commitlog.end
    first = units.span(start).first
    for _, used in units.used(first.number) if first is not None else ():
        offsets = used["physical_offset"].astype(np.int64)
        yield from offsets[(offsets >= start) & (offsets < end) & (used["size"] > 0)].tolist()
