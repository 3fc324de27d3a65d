"""Find state that is missing altogether: CF-GONE, CF-TOPICS, CO-GONE, DO-GONE, TC-GONE, RD-GONE.

A sound store may lack a file: a broker that was killed in its first seconds, one without consumers,
or one that keeps it in RocksDB. What is missing is damage where the log tells that it was there.
Source: ConfigManager#load, #persist, BrokerController#shutdown, 4.9.3 to 5.5.0; observed, 4.9.3,
5.3.3 and 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import POP_DATABASE
from rmqtool.broker.names import (
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_made_by_brokers,
    is_system_group,
)
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_rocksdb import RD_GONE
from rmqtool.findings.registry_state import CF_GONE, CF_TOPICS, CO_GONE, DO_GONE, TC_GONE
from rmqtool.formats.config_names import DELAYS_JSON, GROUPS_JSON, OFFSETS_JSON, TOPICS_JSON
from rmqtool.formats.config_shapes import consumer_offsets, subscription_groups, topics
from rmqtool.formats.rocksdb_databases import POP_STORE
from rmqtool.plural import counted
from rmqtool.queues.discovery import UNIT_FAMILIES
from rmqtool.store.artefact import TIMER_CHECK, ArtefactKind
from rmqtool.store.config_sources import (
    CONFIG,
    ConfigPresence,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.broker.release import Version
    from rmqtool.check.inspection import Inspection
    from rmqtool.check.queues.ranges import QueueRanges
    from rmqtool.findings.finding import Finding

NO_COPY: Final = "and no copy of it"


@dataclass
class Needed:
    """What the log and its queues tell of configuration that brokers had.

    To count messages each queue is asked how far it reaches: that is done only where a file is
    missing.
    """

    presence: ConfigPresence
    ranges: QueueRanges
    groups: frozenset[str]  # of consumers
    has_crashed: bool  # so that what is written at a stop only may never have been there

    @cached_property
    def topics(self) -> dict[str, int]:
        """Messages of each topic that clients have to find a route to."""
        counts = self.ranges.messages().items()
        return {topic: count for topic, count in counts if count and not is_made_by_brokers(topic)}

    @cached_property
    def delayed(self) -> int:
        """Messages in the schedule topic."""
        return self.ranges.messages(SCHEDULE_TOPIC)[SCHEDULE_TOPIC]

    @cached_property
    def timers(self) -> int:
        """Messages in the timer's topic."""
        return self.ranges.messages(TIMER_TOPIC)[TIMER_TOPIC]

    @property
    def has_messages(self) -> bool:
        """Whether there are any that need a configuration."""
        return bool(self.delayed or self.topics)


class MissingConfig:
    """Finds what is missing of one store; what it takes to tell is looked at once.

    Args:
        inspection: of the store.
        ranges: of its queues.
    """

    def __init__(self, inspection: Inspection, ranges: QueueRanges) -> None:
        self._inspection, self._ranges = inspection, ranges

    @cached_property
    def _needed(self) -> Needed | None:
        return _needed(self._inspection, self._ranges)

    def check(self) -> Iterator[Finding]:
        """Find missing topics and settings of groups; one finding where all of it is missing."""
        needed = self._needed
        if needed is None:
            return
        if not needed.presence.has_any:
            if needed.has_messages:
                costs = "; ".join(_costs(needed))
                yield finding(CF_GONE, At(CONFIG), f"there is no configuration: {costs}")
            return
        if not needed.presence.has(TOPICS_JSON) and needed.topics:
            message = _missing(needed, TOPICS_JSON, _no_route(needed))
            yield finding(CF_TOPICS, At(_path(needed, TOPICS_JSON)), message)
        groups = _retrying(_names(needed.presence)) | _committed(needed.presence)
        if groups and not needed.presence.has(GROUPS_JSON) and needed.has_messages:
            cost = f"{counted(len(groups), 'group')} of consumers get default settings"
            at, message = At(_path(needed, GROUPS_JSON)), _missing(needed, GROUPS_JSON, cost)
            yield finding(CF_GONE, at, message, severity=Severity.WARNING)

    def check_offsets(self) -> Iterator[Finding]:
        """Find missing offsets, unless all of the configuration is missing: `check` says that."""
        needed = self._needed
        if needed is None or self._is_reported(needed):
            return
        if not needed.presence.has(OFFSETS_JSON) and needed.topics:
            # A broker without consumers that is killed within ten seconds has not written it yet.
            is_early = needed.has_crashed and not needed.groups
            at = At(_path(needed, OFFSETS_JSON))
            message = _missing(needed, OFFSETS_JSON, _start_over(needed))
            yield finding(CO_GONE, at, message, severity=Severity.NOTE if is_early else None)
        if not needed.presence.has(DELAYS_JSON) and needed.delayed:
            message = _missing(needed, DELAYS_JSON, _again(needed))
            yield finding(DO_GONE, At(_path(needed, DELAYS_JSON)), message)

    def check_timer(self) -> Iterator[Finding]:
        """Find a missing `timercheck`, unless all of the configuration is missing."""
        needed = self._needed
        if needed is None or self._is_reported(needed):
            return
        if needed.presence.lacks_timer_check and needed.timers:
            message = f"there is no {TIMER_CHECK}: {_timers_again(needed)}"
            yield finding(TC_GONE, At(f"{CONFIG}/{TIMER_CHECK}"), message)

    def check_pop(self) -> Iterator[Finding]:
        """Find the database of pop consumers gone, which a broker makes as soon as it is asked for.

        Source: BrokerController#BrokerController, PopConsumerService#start, 5.3.2 to 5.5.1.
        """
        inspection, broker_conf = self._inspection, self._inspection.store.broker_conf
        if not POP_DATABASE.of(broker_conf, inspection.scope.version):
            return
        is_asked = inspection.store.asked.kind is ArtefactKind.STORE
        if not is_asked or inspection.is_above_unread(POP_STORE):
            return
        with suppress(UnreadablePath):  # said elsewhere
            paths = {database.path for database in inspection.store.rocksdb()}
            if POP_STORE not in paths and any(True for _ in self._ranges.names()):
                message = f"{POP_DATABASE.name} is set, but there is no {POP_STORE}"
                yield finding(RD_GONE, At(POP_STORE), message)

    def _is_reported(self, needed: Needed) -> bool:
        return self._inspection.options.wants("config") and not needed.presence.has_any


def groups_of(presence: ConfigPresence, queue_topics: Iterable[str]) -> frozenset[str]:
    """Give the groups of consumers that are configured, or have a topic for messages to retry.

    Args:
        presence: of the configuration.
        queue_topics: topics that have a queue.
    """
    configured = {group.group for group in subscription_groups(presence.document(GROUPS_JSON))}
    retried = _retrying({*queue_topics, *_names(presence)})
    return frozenset(group for group in configured | retried if not is_system_group(group))


def _retrying(names: Iterable[str]) -> frozenset[str]:
    """Give the groups that have a topic for messages to retry."""
    prefix = RETRY_PREFIX
    return frozenset(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def _committed(presence: ConfigPresence) -> frozenset[str]:
    """Give the groups that have offsets: a broker knows the settings of each that connects."""
    offsets = consumer_offsets(presence.document(OFFSETS_JSON))
    return frozenset(offset.group for offset in offsets if not is_system_group(offset.group))


def _names(presence: ConfigPresence) -> set[str]:
    return {topic.topic for topic in topics(presence.document(TOPICS_JSON))}


def _needed(inspection: Inspection, ranges: QueueRanges) -> Needed | None:
    """Count what would be needed; None where all is there, or not all is seen.

    Of a store that has its configuration no queue is looked at.
    """
    store = inspection.store
    if store.asked.kind is not ArtefactKind.STORE or inspection.options.topic is not None:
        return None
    if inspection.is_above_unread(CONFIG) or inspection.is_below_unread(CONFIG):
        return None
    try:
        presence = ConfigPresence(store, inspection.scope.version)
    except UnreadablePath:  # said elsewhere
        return None
    if _has_all(presence) and not (presence.lacks_timer_check and ranges.has((TIMER_TOPIC, 0))):
        return None
    queue_topics = {topic for family in UNIT_FAMILIES for topic in inspection.queue_topics(family)}
    groups = groups_of(presence, queue_topics)
    return Needed(presence, ranges, groups, inspection.scope.has_crashed)


def _has_all(presence: ConfigPresence) -> bool:
    return all(map(presence.has, (TOPICS_JSON, GROUPS_JSON, OFFSETS_JSON, DELAYS_JSON)))


def may_lack(inspection: Inspection, version: Version) -> bool:
    """Tell whether a file is missing that may be needed: which messages there were, the log tells.

    Their queues may be gone, too; so they are compared with the log, whatever was asked for.

    Args:
        inspection: of a store; it need not be settled.
        version: of the release that is to run on it.
    """
    if not inspection.options.wants("config", "offsets", "timer"):
        return False
    try:
        presence = ConfigPresence(inspection.store, version)
    except UnreadablePath:  # said elsewhere
        return False
    return presence.lacks_timer_check or not _has_all(presence)


def _path(needed: Needed, name: str) -> str:
    return f"{CONFIG}/{needed.presence.file_of(name)}"


def _missing(needed: Needed, name: str, cost: str) -> str:
    """Say that a file is missing, and what follows."""
    file = needed.presence.file_of(name)
    beside = ", and no database of it" if needed.presence.sources.databases else ""
    return f"there is no {file} {NO_COPY}{beside}: {cost}"


def _costs(needed: Needed) -> Iterator[str]:
    if needed.topics:
        yield _no_route(needed)
    if needed.delayed:
        yield _again(needed)
    if needed.timers and needed.presence.lacks_timer_check:
        yield _timers_again(needed)
    if needed.groups:
        yield _start_over(needed)


def _no_route(needed: Needed) -> str:
    messages = counted(sum(needed.topics.values()), "message")
    return f"no client finds a route to {counted(len(needed.topics), 'topic')} with {messages}"


def _again(needed: Needed) -> str:
    return (
        f"delivery of {counted(needed.delayed, 'delayed message')} begins at the first one, so "
        "that those which were delivered come again"
    )


def _timers_again(needed: Needed) -> str:
    return (
        f"the timer begins with the first of {counted(needed.timers, 'message')} in its topic, so "
        "that timers which were delivered come again"
    )


def _start_over(needed: Needed) -> str:
    if not needed.groups:
        return "groups of consumers begin at the first or the last message"
    groups = counted(len(needed.groups), "group")
    return f"{groups} of consumers begin at the first or the last message"
