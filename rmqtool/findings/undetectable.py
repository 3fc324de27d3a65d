"""What no check can find: fields that nothing in a store contradicts when they are changed.

`tests.check.flip_campaign` flips every bit of one of each kind of record, unit and entry; each
flip that a validation at level deep does not find lies in one of these fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

UNDETECTABLE: Final[Mapping[str, str]] = {
    "message.flag": "the application's own number; only a property CRC covers it",
    "message.sys_flag": "the bit MULTI_TAGS, which brokers set by the topic's configuration of "
    "that time and pass on unread; only a property CRC covers it",
    "message.born_host": "the client's address, where the messages around it are not by the same "
    "client, or this one has several addresses; a port above 65535 is found; only a property CRC "
    "covers it",
    "message.store_host": "where the records on both sides were stored under another address; "
    "only a property CRC covers it",
    "message.reconsume_times": "in retry topics, which count attempts; only a property CRC "
    "covers it",
    "message.born_timestamp": "by less than a second when there is a unique key, which holds the "
    "same moment; by any amount without one; only a property CRC covers it",
    "message.store_timestamp": "by so little that it stays between those of its neighbours; only a "
    "property CRC covers it",
    "message.properties": "names and values of properties that nothing else repeats, such as an "
    "application's own; only a property CRC covers them",
    "consume queue extension.bit_map": "which filters accepted the message when it was stored; "
    "subscriptions may have changed since",
    "checkpoint.physic_msg_timestamp": "an older time is right, too: recovery only starts earlier",
    "checkpoint.logics_msg_timestamp": "an older time is right, too: recovery only starts earlier",
    "checkpoint.index_msg_timestamp": "an older time is right, too: more of the index is rebuilt",
    "checkpoint.master_flushed_offset": "how far the master was; this store cannot know it",
    "checkpoint.confirm_phy_offset": "a smaller offset is right, too",
    "checkpoint.logics_physical_offset": "the start of an older record is right, too",
    "timer check.last_read_time_ms": "an older time is right, too: timers since are read again",
    "timer check.last_timer_log_flush_pos": "a smaller position is right, too: more is recovered",
    "timer check.last_timer_queue_offset": "a smaller offset is right, too: more is read again",
    "timer check.master_timer_queue_offset": "how far the master was; this store cannot know it",
    "timer check.state_version": "part of a version number that nothing repeats",
    "timer check.timestamp": "part of a version number that nothing repeats",
    "timer check.counter": "part of a version number that nothing repeats",
}
