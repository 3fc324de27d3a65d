"""How a broker delays messages, by its own configuration: at any time, or by levels only.

Source: AdminBrokerProcessor#getBrokerConfig, HookUtils#handleScheduleMessage, ScheduleMessage-
Service, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.conf import DELAY_LEVELS
from rmqtool.broker.dispatch import parse_delay_levels
from rmqtool.errors import RemotingError
from rmqtool.formats import properties
from rmqtool.sending.options import shown
from rmqtool.sending.outgoing import TIMER_DELIVER_MS
from rmqtool.sending.remoting import brief

if TYPE_CHECKING:
    from rmqtool.sending.outgoing import Wait
    from rmqtool.sending.remoting import Connection

GET_BROKER_CONFIG: Final = 26
_SUCCESS: Final = 0
_LINE: Final = re.compile(r"^(\w+)=(.*)$", re.MULTILINE)


class Delaying(NamedTuple):
    """How a broker delays messages."""

    has_timers: bool  # until any time, as 5.x does
    levels_ms: tuple[int, ...]  # delay of level 1, 2, …

    def property_for(self, wait: Wait) -> tuple[str, int]:
        """Give the property that keeps what is left of a delay, and by how many ms it is longer.

        It is empty for what is due already. Of levels the shortest one is taken that is not too
        short; levels of the old cluster count as those of this one.
        """
        due = wait.due(self.levels_ms)
        left = due - int(time.time() * 1000)
        if left <= 0:
            return "", 0
        if self.has_timers:
            return properties.encode({TIMER_DELIVER_MS: str(due)}).decode(), 0
        longer = [(ms, level) for level, ms in enumerate(self.levels_ms, 1) if ms >= left]
        ms, level = min(longer) if longer else (left, len(self.levels_ms))
        return properties.encode({properties.DELAY: str(level)}).decode(), ms - left


def delaying_of(connection: Connection) -> Delaying:
    """Ask a broker how it delays messages.

    Raises:
        RemotingError: it does not say so.
    """
    answer = connection.ask(GET_BROKER_CONFIG, {})
    if answer.code != _SUCCESS:
        raise RemotingError(
            address=shown(*connection.address),
            reason=f"does not say how it delays messages: {answer.code}: {brief(answer.remark)}",
            step="--delays drop, or an access key that may read its configuration",
        )
    conf = conf_of(answer.body)
    levels = parse_delay_levels(conf.get(DELAY_LEVELS.name, DELAY_LEVELS.default))
    return Delaying(conf.get("timerWheelEnable") == "true", levels)


def conf_of(body: bytes) -> dict[str, str]:
    """Read the configuration that a broker answers: Java properties, one a line."""
    text = body.decode("utf-8", "replace")
    return {name: value.replace("\\", "") for name, value in _LINE.findall(text)}
