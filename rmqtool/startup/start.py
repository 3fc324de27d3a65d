"""All stages in the broker's order, and the prediction that comes of them.

Source: DefaultMessageStore#load, #recover, #start, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import DELAY_LEVELS, ROCKSDB_KEYS, ROCKSDB_STORE, STORE_TYPE, complaints
from rmqtool.broker.dispatch import DispatchRules, parse_delay_levels
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.derive.settings import has_lmq_queues
from rmqtool.errors import NotAStore, UnsupportedStore
from rmqtool.startup import compaction_losses, light, surroundings
from rmqtool.startup.absent import AbsentConfig
from rmqtool.startup.batch_queues import BatchQueue
from rmqtool.startup.commitlog import recover
from rmqtool.startup.compaction import compacted_topics
from rmqtool.startup.dispatch import dispatch
from rmqtool.startup.extensions import load_extensions
from rmqtool.startup.fates import Before, index_fate, queue_fates
from rmqtool.startup.indexes import ModelIndex
from rmqtool.startup.live import freeze, settled
from rmqtool.startup.load import Loader, StartFails, exists, queue_directories, read_checkpoint
from rmqtool.startup.losses import LossCount, Losses
from rmqtool.startup.model import Model
from rmqtool.startup.prediction import Loss, Prediction
from rmqtool.startup.queues import ConsumeQueue, EmptyLastFile
from rmqtool.startup.settings import Settings, lengths_of, settings_of
from rmqtool.startup.timers import timers
from rmqtool.store.branch import BranchKind
from rmqtool.store.release import written_by

if TYPE_CHECKING:
    from rmqtool.startup.commitlog import Recovered
    from rmqtool.startup.dispatch import Dispatched
    from rmqtool.startup.rocksdb.stages import RocksStages
    from rmqtool.store.tree import Store

_NOT_FORETOLD: Final = {
    "compaction": "whether it is taken",
    "timerlog": "where it is cut",
}


def predict(
    store: Store,
    version: str | None = None,
    settings: Settings | None = None,
    *,
    by_kernels: bool | None = None,
    as_user: str | None = None,
) -> Prediction:
    """Foretell what the broker of a version would do if it were started on a store now.

    Args:
        store: a whole store; nothing of it is written.
        version: such as `5.3.3`; None is whoever wrote the store.
        settings: of the broker; None takes them from the store's broker.conf.
        by_kernels: whether the log is read by kernels; None decides by the length of its files.
        as_user: who runs the broker, by name or number; None is whoever owns most of the store.

    Raises:
        UsageError: the version or the user is not known.
        NotAStore: this is a part of a store only.
        UnsupportedStore: how the start goes is not in the store's files alone.
        UnreadablePath: something could not be read.
    """
    rules = Rules(written_by(store).version if version is None else Version.parse(version))
    settings = settings or _settings(store, rules)
    _refuse_what_cannot_be(store)
    if store.lock_held():
        return settled(lambda: _predict(store, rules, settings, by_kernels, as_user))
    return _predict(store, rules, settings, by_kernels, as_user)


def _predict(
    store: Store, rules: Rules, settings: Settings, by_kernels: bool | None, as_user: str | None
) -> Prediction:
    loader = Loader(rules)
    model = _load(store, rules, settings, loader)
    model.is_live, model.by_kernels = bool(store.lock_held()), by_kernels
    stages = _rocks_stages(store, model)
    if stages is None and model.is_live:
        freeze(model)
    model = stages.model if stages else model
    before = stages.before if stages else Before.of(model)
    surroundings.refuse_configuration(store, rules, loader)
    _refuse_databases(store, rules, loader)
    surroundings.refuse_timer(store, rules, loader)
    surroundings.refuse_access(store, loader, as_user)
    load_extensions(store, model)
    run = _Run(model, stages)
    if loader.refusals:
        run.load_index(store, stopped_cleanly=True)  # it stays as it is
    else:
        run.start(store)
    return _prediction(store, model, before, run)


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
    stages: RocksStages | None = None
    recovered: Recovered | None = None
    dispatched: Dispatched | None = None

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
        if self.stages is None:
            return recover(self.model)
        recovered = recover(self.model, self.stages.start_file)
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
    if store.asked.kind is not BranchKind.STORE:
        reason = "a start needs the root of a store, with all its parts"
        raise NotAStore(path=str(store.asked.place), reason=reason)
    if store.is_dledger:
        reason = "a DLedger log: what is committed, the other nodes say"
        raise UnsupportedStore(path=str(store.root), reason=reason)


def _load(store: Store, rules: Rules, settings: Settings, loader: Loader) -> Model:
    """Stage 1: list all mapped files, read the checkpoint."""
    geometry = lengths_of(store, rules.version)
    logs = [(branch.place, branch.path) for branch in store.branches_of(BranchKind.COMMITLOG)]
    commitlog = loader.load(logs, geometry.commitlog.value)
    model = Model(
        rules=rules,
        settings=settings,
        loader=loader,
        stopped_cleanly=not exists(store.root.child("abort")),
        checkpoint=read_checkpoint(store.root.child("checkpoint"), loader),
        commitlog=commitlog,
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
    )
    _load_queues(store, model, is_batch=False)
    if rules.has_batch_queues:
        _load_queues(store, model, is_batch=True)
    return model


def _rocks_stages(store: Store, model: Model) -> RocksStages | None:
    """Give the stages of a store with RocksDB; None for others, which pay nothing for it."""
    broker_conf, version = store.broker_conf, model.rules.version
    is_told = broker_conf is not None and (
        STORE_TYPE.of(broker_conf, version) == ROCKSDB_STORE
        or any(key.of(broker_conf, version) for key in ROCKSDB_KEYS)
    )
    if not is_told and not store.rocksdb():
        return None
    from rmqtool.startup.rocksdb.stages import rocks_stages

    return rocks_stages(store, model)


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
    for topic, queue_id, place, below in queue_directories(store.root.child(name)):
        path = f"{name}/{below}"
        if rules.has_batch_queues and (topic in model.batch_topics) is not is_batch:
            expected = "has" if topic in model.batch_topics else "has no"
            model.loader.refuse(path, f"by topics.json the topic {expected} batch queues")
        files = model.loader.load([(place, path)], length)
        if is_batch:
            model.batch_queues[topic, queue_id] = BatchQueue(topic, queue_id, files)
        else:
            model.queues[topic, queue_id] = ConsumeQueue(topic, queue_id, files)


def _prediction(store: Store, model: Model, before: Before, run: _Run) -> Prediction:
    """Join what the stages left into one answer."""
    log = model.commitlog
    fates = tuple(run.stages.fates() if run.stages else queue_fates(model, before))
    if model.compacted is not None and run.recovered is not None:
        fates = tuple(compaction_losses.fate(fate, model.compacted) for fate in fates)
    known = partial(surroundings.is_known, store, model.topics)
    if run.recovered is None:  # the log stays as it is
        losses = Losses()
    else:
        losses = LossCount(model, before.coverage, run.recovered, known).count(before.log)
    timer = timers(store, model)
    further = [*run.stages.further(run.recovered, fates)] if run.stages else []
    unrouted = Loss()
    if run.recovered is not None and not model.loader.refusals:
        absent = AbsentConfig(store, model, fates)
        unrouted = absent.unrouted()
        further += absent.steps()
    return Prediction(
        version=str(model.rules.version),
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
        queues=fates,
        index=index_fate(model.index),
        dispatched=run.dispatched,
        records_dispatched=model.dispatched,
        lost=losses.lost.loss(),
        cut=losses.cut.loss(),
        unlisted=losses.unlisted.loss(),
        deleted_topics=losses.deleted_topics.loss(),
        misdelivered=losses.misdelivered.loss(),
        unrouted=unrouted,
        compacted=compaction_losses.missing(model) if run.recovered else Loss(),
        missing=losses.missing(model, before),
        files_unread=losses.unread,
        light=Loss()
        if run.recovered is None
        else light.missing(model, before.coverage, store.config("topics.json").document),
        timers=timer.waiting,
        timers_lost=timer.lost,
        failed_topic=model.failed_topic,
        further=tuple(further),
        not_foretold=tuple(name for name in _NOT_FORETOLD if exists(store.root.child(name))),
        ignored=tuple(map(str, complaints(store.broker_conf, model.rules.version)))
        if store.broker_conf
        else (),
    )
