"""All stages in the broker's order, and the prediction that comes of them.

Source: DefaultMessageStore#load, #recover, #start, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool import clock
from rmqtool.broker.conf import (
    DELAY_LEVELS,
    ROCKSDB_KEYS,
    ROCKSDB_STORE,
    STORE_TYPE,
    TIMER_WHEEL,
)
from rmqtool.broker.dispatch import DispatchRules, parse_delay_levels
from rmqtool.broker.names import SCHEDULE_TOPIC, TIMER_TOPIC, is_deleted, is_made_by_brokers
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.check.queues.orphans import have_messages
from rmqtool.check.state.absent import groups_of
from rmqtool.derive.settings import has_lmq_queues
from rmqtool.errors import NotAStore, UnreadablePath, UnsupportedStore
from rmqtool.formats.config_names import DELAYS_JSON, OFFSETS_JSON, TOPIC_TABLE, TOPICS_JSON
from rmqtool.formats.config_shapes import topics
from rmqtool.plural import counted
from rmqtool.queues.discovery import Queues
from rmqtool.startup import compaction_losses, known_bugs, light
from rmqtool.startup.batch_queues import BatchQueue
from rmqtool.startup.combination import refuse_combination
from rmqtool.startup.commitlog import recover
from rmqtool.startup.compaction import compacted_topics
from rmqtool.startup.delay_levels import undelivered
from rmqtool.startup.dispatch import dispatch
from rmqtool.startup.extension_files import load_extensions
from rmqtool.startup.indexes import ModelIndex
from rmqtool.startup.load import (
    Loader,
    StartFails,
    every_file,
    exists,
    queue_directories,
    read_checkpoint,
)
from rmqtool.startup.losses import LogReading, LossCount, to_keep
from rmqtool.startup.model import Model
from rmqtool.startup.outcomes import Before, index_outcome, queue_outcomes
from rmqtool.startup.plain_queues import PlainQueues, plain_queues
from rmqtool.startup.prediction import LaterStep, Loss, Prediction, TopicLoss
from rmqtool.startup.preflight import unread_parts
from rmqtool.startup.queue_outcomes import QueueOutcomes
from rmqtool.startup.queues import ConsumeQueue, EmptyLastFile
from rmqtool.startup.retention import retention
from rmqtool.startup.settings import Settings, lengths_of, settings_of
from rmqtool.startup.timers import timers, timers_delivered
from rmqtool.store.access import Holdings, user_named
from rmqtool.store.artefact import TIMER_CHECK, ArtefactKind
from rmqtool.store.config_files import NEEDED, NEEDED_BY_5
from rmqtool.store.config_sources import (
    CONFIG,
    ConfigPresence,
)
from rmqtool.store.read_by import as_read_by
from rmqtool.store.release import written_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.broker.conf import BrokerConf
    from rmqtool.queues.short import ShortQueues
    from rmqtool.startup.commitlog import Recovered
    from rmqtool.startup.dispatch import Dispatched
    from rmqtool.startup.rocksdb.model import RocksSettings
    from rmqtool.startup.rocksdb.stages import RocksStages
    from rmqtool.startup.walked import WalkedLog
    from rmqtool.store.access import Held, User
    from rmqtool.store.tree import Store


_NOT_MODELLED: Final = {
    "compaction": "whether it is taken",
    "timerlog": "where it is cut",
}


def predict(
    store: Store,
    version: str | None = None,
    settings: Settings | None = None,
    *,
    as_user: str | None = None,
    reads: LogReading = LogReading.WHERE_IN_DOUBT,
    now_ms: int | None = None,
) -> Prediction:
    """Predict what the broker of a version would do if it were started on a store now.

    Args:
        store: a whole store; nothing of it is written.
        version: such as `5.3.3`; None is whoever wrote the store.
        settings: of the broker; None takes them from the store's broker.conf.
        as_user: who runs the broker, by name or number; None is whoever owns most of the store.
        reads: which files of the log are read to count what is lost.
        now_ms: when it would be started, ms since 1970; None is now.

    Raises:
        UsageError: the version or the user is not known.
        NotAStore: this is a part of a store only.
        UnsupportedStore: how the start goes is not in the store's files alone.
        UnreadablePath: something could not be read.
    """
    rules = Rules(written_by(store).version if version is None else Version.parse(version))
    settings = settings or _settings(store, rules)
    _refuse_what_cannot_be(store)
    now = clock.start_ms() if now_ms is None else now_ms
    how = _How(as_user, reads, now)
    if store.moment.is_live:
        from rmqtool.startup.live import settled

        return settled(store, lambda: _predict(store, rules, settings, how))
    return _predict(store, rules, settings, how)


class _How(NamedTuple):
    """How a prediction is made; see `predict`."""

    as_user: str | None
    reads: LogReading
    now_ms: int


def _predict(store: Store, rules: Rules, settings: Settings, how: _How) -> Prediction:
    loader = Loader(rules)
    end, in_rocksdb = None, _rocks_settings(as_read_by(store, rules.version), rules)
    if store.moment.is_live:
        from rmqtool.startup.live import dispatched

        has_files = in_rocksdb is None or in_rocksdb.has_files
        end = dispatched(replace(store)) if has_files else 0
    whole = replace(store)  # listed anew each time, and after it is known how far the queues are
    if end:
        from rmqtool.queues.as_of import as_of

        whole = as_of(whole, end)
    store = as_read_by(whole, rules.version)
    model = _load(store, rules, settings, loader, end)
    stages = _rocks_stages(store, model, in_rocksdb)
    model = stages.model if stages else model
    before, topics = stages.before if stages else Before.of(model), model.topics
    refuse_configuration(store, rules, loader)
    refuse_combination(store.broker_conf, rules, loader)
    _refuse_databases(store, rules, loader)
    refuse_timer(store, rules, loader)
    refuse_access(store, loader, how.as_user, model.plain.short)
    load_extensions(store, model)
    run = _Run(model, stages, how)
    if loader.refusals:
        model.take_out(model.plain.left)  # of each file all counts as written
        run.load_index(store, stopped_cleanly=True)  # it stays as it is
    else:
        run.start(store)
    unread = tuple(unread_parts(whole, store, model, run.recovered))
    known = partial(is_known, _configured(store), topics)  # of a deleted one a start makes queues
    return replace(_prediction((whole, store), model, before, run, known), unread=unread)


def _settings(store: Store, rules: Rules) -> Settings:
    """Give what the broker goes by; without a broker.conf light queues tell of their switches."""
    settings = settings_of(store.broker_conf, rules.version)
    if store.broker_conf is None and has_lmq_queues(store):
        return replace(settings, has_lmq=True, dispatches_to_many=True)
    return settings


@dataclass(slots=True)
class _Run:
    """The start itself."""

    model: Model
    stages: RocksStages | None
    how: _How
    recovered: Recovered | None = None
    dispatched: Dispatched | None = None
    walked: WalkedLog | None = None

    def start(self, store: Store) -> None:
        """Recover, then dispatch; what Java throws on the way ends the start."""
        model = self.model
        self.load_index(store, stopped_cleanly=model.stopped_cleanly)
        try:
            model.recover_queues()
            self.recovered = self.recover()
            model.correct_minimums()
            if not model.loader.refusals:
                self.dispatched = dispatch(model)
                if self.dispatched.is_awaited and self.dispatched.hangs_at is None:
                    model.correct_minimums()
        except StartFails as failure:
            model.loader.refuse(failure.path, failure.reason)
        except EmptyLastFile as failure:
            reason = "the newest file of the queue is empty, and correctMinOffset throws"
            model.loader.refuse(str(failure), reason)

    def recover(self) -> Recovered:
        """Recover the log; then a combined store compares its two parts.

        Raises:
            StartFails: Java throws.
        """
        self.walked = to_keep(self.model, self.how.reads)
        if self.stages is None:
            return recover(self.model, walked=self.walked)
        recovered = recover(self.model, self.stages.start_file, self.walked)
        self.stages.differ()
        return recovered

    def load_index(self, store: Store, *, stopped_cleanly: bool) -> None:
        """Take, and after a crash destroy, the files of the key index."""
        self.model.index.load(
            store.root.child("index"),
            self.model.loader,
            stopped_cleanly=stopped_cleanly,
            index_timestamp=self.model.checkpoint["index_msg_timestamp"],
        )


def _refuse_what_cannot_be(store: Store) -> None:
    """Raise where nothing can be foretold."""
    if store.asked.kind is not ArtefactKind.STORE:
        reason = "a start needs the root of a store, with all its parts"
        raise NotAStore(path=str(store.asked.place), reason=reason)
    if store.is_dledger:
        reason = "a DLedger log: the committed end is known by the other nodes"
        raise UnsupportedStore(path=str(store.root), reason=reason)


def _load(store: Store, rules: Rules, settings: Settings, loader: Loader, end: int | None) -> Model:
    """Stage 1: list all mapped files, read the checkpoint.

    Beside a broker, which has dispatched up to an end, each queue is looked at unit by unit.
    """
    geometry = lengths_of(store, rules.version)
    logs = [
        (artefact.place, artefact.path) for artefact in store.branches_of(ArtefactKind.COMMITLOG)
    ]
    commitlog = loader.load(logs, geometry.commitlog.value)
    model = Model(
        rules=rules,
        settings=settings,
        loader=loader,
        stopped_cleanly=not exists(store.root.child("abort")),
        checkpoint=read_checkpoint(store.root.child("checkpoint"), loader),
        commitlog=commitlog,
        refused_log=every_file(logs) if loader.refusals else None,
        index=ModelIndex(rules, settings, geometry.index_entries.value),
        queue_length=geometry.consume_queue.value,
        batch_length=geometry.batch_queue.value,
        dispatch_rules=DispatchRules(
            rules,
            multi_dispatch=settings.dispatches_to_many,
            lmq=settings.has_lmq,
            batch_topics=store.batch_topics or frozenset(),
            delay_levels_ms=parse_delay_levels(DELAY_LEVELS.of(store.broker_conf)),
        ),
        compacted=compacted_topics(store, rules.version),
        is_live=end is not None,
        judged_up_to=end,
    )
    _load_queues(store, model, is_batch=False)
    if rules.has_batch_queues:
        _load_queues(store, model, is_batch=True)
    return model


def _ignored(conf: BrokerConf | None, version: Version) -> tuple[str, ...]:
    """Say what the broker passes over in its configuration."""
    if conf is None:
        return ()
    from rmqtool.broker.complaints import complaints

    return tuple(map(str, complaints(conf, version)))


def _rocks_settings(store: Store, rules: Rules) -> RocksSettings | None:
    """Say what of a store is in RocksDB; None for others, which pay nothing for it."""
    broker_conf, version = store.broker_conf, rules.version
    is_given = broker_conf is not None and (
        STORE_TYPE.of(broker_conf, version) == ROCKSDB_STORE
        or any(key.of(broker_conf, version) for key in ROCKSDB_KEYS)
    )
    if not is_given and not store.rocksdb():
        return None
    from rmqtool.startup.rocksdb.model import rocks_settings

    return rocks_settings(store, rules)


def _rocks_stages(
    store: Store, model: Model, in_rocksdb: RocksSettings | None
) -> RocksStages | None:
    if in_rocksdb is None:
        return None
    from rmqtool.startup.rocksdb.stages import rocks_stages

    return rocks_stages(store, model, in_rocksdb)


def _refuse_databases(store: Store, rules: Rules, loader: Loader) -> None:
    """Open what else a start opens; stores without a database pay nothing for it."""
    if not store.rocksdb():
        return
    from rmqtool.startup.rocksdb.metadata import refuse_metadata

    refuse_metadata(store, rules, loader)


def _load_queues(store: Store, model: Model, *, is_batch: bool) -> None:
    rules = model.rules
    name = "batchconsumequeue" if is_batch else "consumequeue"
    length = model.batch_length if is_batch else model.queue_length
    if not is_batch:
        model.plain = plain_queues(store, model.loader, length, model.batch_topics)
    known = PlainQueues[ConsumeQueue].none() if is_batch else model.plain
    listed = queue_directories(store.root.child(name), known.numbers_of)
    for topic, queue_id, place, below in listed:
        path = f"{name}/{below}"
        if rules.has_batch_queues and (topic in model.batch_topics) is not is_batch:
            expected = "has" if topic in model.batch_topics else "has no"
            model.loader.refuse(path, f"by topics.json the topic {expected} batch queues")
        files = model.loader.load([(place, path)], length)
        if is_batch:
            model.batch_queues[topic, queue_id] = BatchQueue(topic, queue_id, files)
        else:
            model.queues[topic, queue_id] = ConsumeQueue(topic, queue_id, files)


def _prediction(
    stores: tuple[Store, Store],
    model: Model,
    before: Before,
    run: _Run,
    known: Callable[[str], bool],
) -> Prediction:
    """Join what the stages left into one answer."""
    (whole, store), log = stores, model.commitlog
    outcomes = run.stages.outcomes() if run.stages else queue_outcomes(model, before)
    changes = run.recovered is None or not outcomes.keep_all
    if model.compacted is not None and run.recovered is not None:
        outcomes = QueueOutcomes(
            compaction_losses.outcome(outcome, model.compacted) for outcome in outcomes
        )
    reads, walked = run.how.reads, run.walked
    losses = LossCount(model, before, run.recovered, known, reads, changes, walked=walked).count()
    timer = timers(store if model.rules.has_timer else whole, model, run.how.now_ms)
    stays = run.recovered is None or model.is_live or bool(model.loader.refusals)
    steps = [*run.stages.later_steps(run.recovered, outcomes)] if run.stages else []
    unrouted = Loss()
    if run.recovered is not None and not model.loader.refusals:
        absent = AbsentConfig(whole, store, model, outcomes)
        unrouted = absent.unrouted()
        steps += [*absent.steps(), *undelivered(store, model, outcomes)]
    return Prediction(
        version=str(model.rules.version),
        rules_of=str(model.rules.version.rules_of),
        is_proven=model.rules.is_proven,
        refusals=tuple(model.loader.refusals),
        stopped_cleanly=model.stopped_cleanly,
        is_live=model.is_live,
        judged_up_to=model.judged_up_to,
        recovered=run.recovered,
        segments_kept=tuple(file.path for file in log.files),
        segments_deleted=tuple(log.deleted),
        log_minimum=log.minimum,
        log_maximum=log.maximum,
        queues=outcomes,
        index=index_outcome(model.index),
        dispatched=run.dispatched,
        records_dispatched=model.dispatched,
        lost=losses.lost.loss(),
        cut=losses.cut.loss(),
        unlisted=losses.unlisted.loss(),
        deleted_topics=losses.deleted_topics.loss(),
        misdelivered=losses.misdelivered.loss(),
        unrouted=unrouted,
        compacted=compaction_losses.missing(model) if run.recovered else Loss(),
        missing=losses.missing.loss(),
        lost_numbers=tuple(losses.lost_numbers),
        unpassed=losses.unpassed,
        files_unread=losses.unread,
        light=Loss()
        if run.recovered is None
        else light.missing(model, before, store.config(TOPICS_JSON).document),
        timers=timer.waiting,
        timers_lost=timer.lost,
        timers_gone=timer.gone,
        retention=None if stays else retention(store, model, run.how.now_ms),
        failed_topic=model.failed_topic,
        later_steps=tuple(steps),
        cautions=tuple(known_bugs.cautions(store, model.rules)),
        not_modelled=tuple(name for name in _NOT_MODELLED if exists(store.root.child(name))),
        ignored=_ignored(store.broker_conf, model.rules.version),
    )


# What a whole broker loads beside the message store, and would refuse to start for.
#
# A JSON file that cannot be parsed is replaced by its `.bak`, or by nothing without one; only a
# `.bak` that cannot be parsed either stops the broker.
# See BrokerController#initialize, ConfigManager#load, #loadBak, TimerWheel, TimerMessageStore,
# 4.9.3 to 5.5.0.


_OPENED: Final = frozenset(
    {
        ArtefactKind.COMMITLOG,
        ArtefactKind.CONSUME_QUEUE,
        ArtefactKind.BATCH_QUEUE,
        ArtefactKind.INDEX,
        ArtefactKind.CHECKPOINT,
        ArtefactKind.LOCK,
    }
)
_TIMER_WHEEL_LENGTHS: Final = (0, 38_707_200)


def refuse_configuration(store: Store, rules: Rules, loader: Loader) -> None:
    """Note the JSON files that stop the broker."""
    for name in NEEDED + (NEEDED_BY_5 if rules.reads_mappings_and_orders else ()):
        document = store.config(name)
        if problem := document.stops_broker(blank_stops=rules.refuses_blank_configuration):
            loader.refuse(problem.path, "cannot be parsed, and the file itself neither")


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


def refuse_access(store: Store, loader: Loader, as_user: str | None, known: ShortQueues) -> None:
    """Note what the user of the broker cannot open, or not list.

    A directory that cannot be listed is taken for empty: what then goes, nobody wants to know.

    Args:
        store: that the broker would open.
        loader: takes what is refused.
        as_user: who runs the broker; None is whoever owns most of the store.
        known: queues of which it is known whose they are.

    Raises:
        UsageError: there is no such user.
    """
    holdings = Holdings.of(store, known)
    user = holdings.usual_user() if as_user is None else user_named(as_user)
    if user is None:
        return
    for held in holdings.chosen(lambda held: held.kind in _OPENED and not _can_open(held, user)):
        if held.is_directory:
            loader.refuse(held.path, f"user {user.name} cannot list it: it would count as empty")
        else:
            loader.refuse(held.path, f"user {user.name} cannot read and write it")


def _can_open(held: Held, user: User) -> bool:
    return held.can_be_listed(user) if held.is_directory else held.allows(user)


def is_known(configured: dict[str, object], queue_topics: frozenset[str], topic: str) -> bool:
    """Tell whether a topic is one that still ought to have queues: it was not deleted."""
    return not is_deleted(topic, configured, queue_topics)


def _configured(store: Store) -> dict[str, object]:
    table = store.config(TOPICS_JSON).document.get(TOPIC_TABLE)
    return table if isinstance(table, dict) else {}


# What a start costs for which topics, groups or offsets are not there, or cannot be read.
#
# A broker takes its defaults, and says nothing. Of a topic that it does not know no client finds a
# route; delayed messages are delivered again, as each level begins at its first one; groups of
# consumers begin at the first or the last message, as their clients are set.
# See TopicConfigManager, ScheduleMessageService#load, ConsumerManageProcessor, 4.9.3 to 5.5.0;
# observed, 4.9.3, 5.3.3 and 5.5.0.


DELAYED: Final = "delayed message"


class AbsentConfig:
    """What a start does without configuration that there ought to be.

    Args:
        whole: the store.
        store: the same as the release sees it.
        model: after the start.
        outcomes: of its queues.

    Raises:
        UnreadablePath: a directory may not be listed.
    """

    def __init__(self, whole: Store, store: Store, model: Model, outcomes: QueueOutcomes) -> None:
        self._whole, self._store, self._model = whole, store, model
        self._presence = ConfigPresence(store, model.rules.version)
        self._outcomes, self._topics = outcomes, outcomes.topics_read

    def unrouted(self) -> Loss:
        """Give the messages in reach of topics that no client would find a route to.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        known = {topic.topic for topic in topics(self._presence.document(TOPICS_JSON))}
        unknown = {it for it in self._topics if it not in known and not is_made_by_brokers(it)}
        counts: dict[str, dict[int, int]] = {}
        for outcome in self._outcomes.of(unknown):
            queues = counts.setdefault(outcome.topic, {})  # of two stores of queues one is read
            queues[outcome.queue_id] = max(queues.get(outcome.queue_id, 0), outcome.readable)
        losses = [
            TopicLoss(topic, sum(queues.values()))
            for topic, queues in counts.items()
            if self._has_own(topic)
        ]
        return Loss(tuple(sorted(losses, key=lambda loss: -loss.messages)))

    def _has_own(self, topic: str) -> bool:
        """Tell whether the queues of a topic are not only further queues of other messages."""
        with Queues(self._whole) as queues:
            return have_messages(self._whole, queues.queues_of(topic))

    def steps(self) -> Iterator[LaterStep]:
        """Yield what would come for the second time, and who would start over."""
        if self._presence.is_lost(DELAYS_JSON):
            yield from self._delivered_again()
        if self._presence.lacks_timer_check and TIMER_TOPIC in self._topics:
            yield from self._timers_again()
        has_messages = any(not is_made_by_brokers(topic) for topic in self._topics)
        if has_messages and self._presence.is_lost(OFFSETS_JSON):
            yield from self._starting_over()

    def _delivered_again(self) -> Iterator[LaterStep]:
        queues = {
            outcome.queue_id: (outcome.queue_id, outcome.minimum, outcome.maximum)
            for outcome in self._outcomes.of({SCHEDULE_TOPIC})
            if outcome.readable
        }
        if not queues:
            return
        from rmqtool.query.delay_offsets import delay_offsets  # it looks up messages

        path = f"{CONFIG}/{DELAYS_JSON}"
        try:
            offsets = delay_offsets(self._store, queues.values())
        except UnreadablePath:
            count = sum(end - first for _, first, end in queues.values())
            yield LaterStep("repeat", path, f"up to {_repeated(count, DELAYED)}", count)
            return
        count = sum(offsets[number + 1] - first for number, first, _ in queues.values())
        if count:
            yield LaterStep("repeat", path, _repeated(count, DELAYED), count)

    def _timers_again(self) -> Iterator[LaterStep]:
        if count := timers_delivered(self._model):
            path = f"{CONFIG}/{TIMER_CHECK}"
            yield LaterStep("repeat", path, _repeated(count, "timer message"), count)

    def _starting_over(self) -> Iterator[LaterStep]:
        groups = groups_of(self._presence, self._topics)
        if not groups and (self._presence.has(OFFSETS_JSON) or self._store.abort is not None):
            return  # nothing tells of a consumer
        path = f"{CONFIG}/{self._presence.file_of(OFFSETS_JSON)}"
        who = counted(len(groups), "consumer group") if groups else "consumer groups"
        verb = "starts" if len(groups) == 1 else "start"
        message = f"{who} {verb} over, at the first or the last message"
        yield LaterStep("start_over", path, message, len(groups))


def _repeated(count: int, what: str) -> str:
    verb = "is" if count == 1 else "are"
    return f"{counted(count, what)} {verb} delivered for the second time"
