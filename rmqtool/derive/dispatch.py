"""Which record a broker dispatches where, and with which tags code.

Source: DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue, CommitLog
#checkMessageAndReturnSize, MultiDispatchUtils, BatchConsumeQueue#putMessagePositionInfoWrapper,
IndexService#buildIndex, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.broker import names
from rmqtool.broker.names import LMQ_QUEUE_ID
from rmqtool.broker.release import COMMONEST, Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SCHEDULE_TOPIC: Final = names.SCHEDULE_TOPIC.raw
RETRY_PREFIX: Final = names.RETRY_PREFIX.raw
SYSTEM_PREFIX: Final = names.SYSTEM_PREFIX.raw
TIMER_TOPIC: Final = names.TIMER_TOPIC.raw
LMQ_PREFIX: Final = names.LMQ_PREFIX.raw
LMQ_SEPARATOR: Final = b","
FILE_SEPARATOR: Final = b"/"

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

TAG_KEYS_SINCE: Final = Version(5, 4, 0)
BATCHES_SINCE: Final = Version(5, 0, 0)
LMQ_NOT_FOR_RETRY_SINCE: Final = Version(5, 1, 1)
LMQ_NOT_FOR_SYSTEM_SINCE: Final = Version(5, 2, 0)
LMQ_NOT_WITH_SEPARATOR_SINCE: Final = Version(5, 1, 0)


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """How brokers of one release with one configuration dispatch. Picklable.

    Attributes:
        version: release.
        delay_levels_ms: delay of level 1, 2, … (messageDelayLevel).
        multi_dispatch: records go to the queues that INNER_MULTI_DISPATCH names, too
            (enableMultiDispatch; 5.5.0 not when RocksDB has them).
        lmq: names with the LMQ prefix have queue 0 only (enableLmq).
        batch_topics: topics with batch queues; None where the configuration is not known: then
            a record that says it is an inner batch goes to one.
        run_units: runs are cut where a consume queue file of so many units ends; 0 for nowhere.
    """

    version: Version = COMMONEST
    delay_levels_ms: tuple[int, ...] = ()
    multi_dispatch: bool = False
    lmq: bool = False
    batch_topics: frozenset[bytes] | None = None
    run_units: int = 0

    @classmethod
    def of(
        cls,
        version: Version = COMMONEST,
        *,
        delay_levels: str = DEFAULT_DELAY_LEVELS,
        multi_dispatch: bool = False,
        lmq: bool = False,
        batch_topics: Collection[bytes] | None = None,
        run_units: int = 0,
    ) -> DispatchRules:
        """Make the rules from what broker.conf says.

        Args:
            version: release.
            delay_levels: messageDelayLevel.
            multi_dispatch: enableMultiDispatch.
            lmq: enableLmq.
            batch_topics: topics whose configuration says `queue.type=BatchCQ`.
            run_units: units in a consume queue file.
        """
        return cls(
            version=version,
            delay_levels_ms=parse_delay_levels(delay_levels),
            multi_dispatch=multi_dispatch,
            lmq=lmq,
            batch_topics=None if batch_topics is None else frozenset(batch_topics),
            run_units=run_units,
        )

    @property
    def tag_keys(self) -> bool:
        """Whether the key index has an entry for the tags of a record."""
        return self.version >= TAG_KEYS_SINCE

    def has_batch_queue(self, topic: bytes) -> bool | None:
        """Whether a topic's records go to a batch queue; None where only the record can tell."""
        if self.version < BATCHES_SINCE:
            return False
        return None if self.batch_topics is None else topic in self.batch_topics

    def multi_dispatches(self, topic: bytes) -> bool:
        """Whether records of a topic may go to further queues.

        Writers leave out more topics than this, but consumers copy the properties.
        Source: ConsumeQueue#checkMultiDispatchQueue, later MultiDispatchUtils, 4.9.3 to 5.5.0.
        """
        if not self.multi_dispatch or self.version < LMQ_NOT_FOR_RETRY_SINCE:
            return self.multi_dispatch
        if topic.startswith(RETRY_PREFIX) or topic == SCHEDULE_TOPIC:
            return False
        if self.version < LMQ_NOT_FOR_SYSTEM_SINCE:
            return topic != TIMER_TOPIC
        return not topic.startswith(SYSTEM_PREFIX)

    def further_queues(
        self, topics: bytes, offsets: bytes, queue_id: int
    ) -> Iterator[tuple[bytes, int, int]]:
        """Yield topic, queue id and queue offset of the further queues that a record goes to.

        Nothing is yielded after a text that is no number: there the broker throws.

        Args:
            topics: value of INNER_MULTI_DISPATCH.
            offsets: value of INNER_MULTI_QUEUE_OFFSET.
            queue_id: of the record.
        """
        further, numbers = _split(topics), _split(offsets)
        if len(further) != len(numbers) or not topics.strip() or not offsets.strip():
            return
        for topic, number in zip(further, numbers, strict=True):
            if self.version >= LMQ_NOT_WITH_SEPARATOR_SINCE and FILE_SEPARATOR in topic:
                continue
            if not re.fullmatch(rb"[+-]?[0-9]{1,19}", number):
                return
            is_lmq = topic.startswith(LMQ_PREFIX) and self.lmq
            yield topic, LMQ_QUEUE_ID if is_lmq else queue_id, int(number)


def parse_delay_levels(levels: str) -> tuple[int, ...]:
    """Read messageDelayLevel: the delays of level 1, 2, … in ms; none if a text is no delay.

    Source: ScheduleMessageService#parseDelayLevel, 4.9.3 to 5.5.0, which gives up as a whole.
    """
    delays = []
    for text in levels.strip().split(" "):
        number, unit = text[:-1], text[-1:]
        if unit not in _UNIT_MS or not re.fullmatch(r"[+-]?[0-9]{1,18}", number):
            return ()
        delays.append(int(number) * _UNIT_MS[unit])
    return tuple(delays)


def _split(text: bytes) -> list[bytes]:
    """Split at commas as Java does: empty texts at the end vanish."""
    parts = text.split(LMQ_SEPARATOR)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
