"""What a whole broker loads beside the message store, and would refuse to start for.

A JSON file that cannot be parsed is replaced by its `.bak`, or by nothing when there is none; only
a `.bak` that cannot be parsed either stops the broker.
Source: BrokerController#initialize, ConfigManager#load, #loadBak, TimerWheel, TimerMessageStore,
4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import TIMER_WHEEL
from rmqtool.broker.names import is_made_by_brokers
from rmqtool.startup.settings import lengths_of
from rmqtool.store.config_files import NEEDED, NEEDED_BY_5

if TYPE_CHECKING:
    from rmqtool.broker.rules import Rules
    from rmqtool.startup.load import Loader
    from rmqtool.store.tree import Store

_TIMER_WHEEL_LENGTHS: Final = (0, 38_707_200)


def refuse_configuration(store: Store, rules: Rules, loader: Loader) -> None:
    """Note the JSON files that stop the broker."""
    for name in NEEDED + (NEEDED_BY_5 if rules.has_further_configuration else ()):
        document = store.config(name)
        if found := document.stops_broker(blank_stops=rules.refuses_blank_configuration):
            loader.refuse(found.path, "cannot be parsed, and the file itself neither")


def refuse_timer(store: Store, rules: Rules, loader: Loader) -> None:
    """Note what of the timer stops the broker.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    if not (rules.has_timer and TIMER_WHEEL.of(store.broker_conf, rules.version)):
        return
    wheel = store.root.child("timerwheel").stat()
    if wheel is not None and wheel.size not in _TIMER_WHEEL_LENGTHS:
        expected = _TIMER_WHEEL_LENGTHS[1]
        loader.refuse("timerwheel", f"has {wheel.size} bytes, {expected} are expected")
    log = store.timer_log
    if log.places:
        length = log.file_length
        if store.broker_conf is not None:
            length = lengths_of(store, rules.version).timer_log.value
        queue = loader.load([(place, log.path) for place in log.places], length)
        del queue  # its content is not looked at; the refusals are noted


def is_known(store: Store, queue_topics: frozenset[str], topic: str) -> bool:
    """Tell whether a topic is one that still ought to have queues.

    Without a list of topics every topic is: nobody can say that it was deleted.
    """
    configured = _configured(store)
    return (
        not configured or topic in configured or topic in queue_topics or is_made_by_brokers(topic)
    )


def _configured(store: Store) -> dict[str, object]:
    table = store.config("topics.json").document.get("topicConfigTable")
    return table if isinstance(table, dict) else {}
