"""What a whole broker loads beside the message store, and would refuse to start for.

A JSON file that cannot be parsed is replaced by its `.bak`, or by nothing without one; only a
`.bak` that cannot be parsed either stops the broker.
Source: BrokerController#initialize, ConfigManager#load, #loadBak, TimerWheel, TimerMessageStore,
4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import TIMER_WHEEL
from rmqtool.broker.names import is_deleted
from rmqtool.startup.settings import lengths_of
from rmqtool.store.access import held, user_named, usual_user
from rmqtool.store.branch import BranchKind
from rmqtool.store.config_files import NEEDED, NEEDED_BY_5

if TYPE_CHECKING:
    from rmqtool.broker.rules import Rules
    from rmqtool.startup.load import Loader
    from rmqtool.store.tree import Store

_OPENED: Final = frozenset(
    {
        BranchKind.COMMITLOG,
        BranchKind.CONSUME_QUEUE,
        BranchKind.BATCH_QUEUE,
        BranchKind.INDEX,
        BranchKind.CHECKPOINT,
        BranchKind.LOCK,
    }
)
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
        loader.refuse("timerwheel", f"has {wheel.size:,} bytes, {expected:,} are expected")
    log = store.timer_log
    if log.places:
        length = log.file_length
        if store.broker_conf is not None:
            length = lengths_of(store, rules.version).timer_log.value
        queue = loader.load([(place, log.path) for place in log.places], length)
        del queue  # its content is not looked at; the refusals are noted


def refuse_access(store: Store, loader: Loader, as_user: str | None) -> None:
    """Note what the user of the broker cannot open, or not list.

    A directory that cannot be listed is taken for empty: what then goes, nobody wants to know.

    Raises:
        UsageError: there is no such user.
    """
    everything = held(store)
    user = usual_user(everything) if as_user is None else user_named(as_user)
    if user is None:
        return
    for one in everything:
        if one.kind not in _OPENED:
            continue
        if one.is_directory and not one.can_be_listed(user):
            loader.refuse(one.path, f"user {user.name} cannot list it: it would count as empty")
        elif not one.is_directory and not one.allows(user):
            loader.refuse(one.path, f"user {user.name} cannot read and write it")


def is_known(store: Store, queue_topics: frozenset[str], topic: str) -> bool:
    """Tell whether a topic is one that still ought to have queues: it was not deleted."""
    return not is_deleted(topic, _configured(store), queue_topics)


def _configured(store: Store) -> dict[str, object]:
    table = store.config("topics.json").document.get("topicConfigTable")
    return table if isinstance(table, dict) else {}
