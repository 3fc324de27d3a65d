"""Keys of broker.conf that do not go together: a broker with queues of both kinds is not made.

Source: CombineConsumeQueueStore#CombineConsumeQueueStore, StoreType#fromString, 5.3.4 to 5.5.1;
RocksDBLiteLifecycleManager#init, 5.5.0 and 5.5.1; observed, 5.5.0 and 5.5.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker import conf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.broker.conf import BrokerConf
    from rmqtool.broker.rules import Rules
    from rmqtool.startup.load import Loader

FILES: Final = "default"
ROCKSDB: Final = conf.ROCKSDB_STORE.lower()
KINDS: Final = frozenset({FILES, ROCKSDB})


def refuse_combination(broker_conf: BrokerConf | None, rules: Rules, loader: Loader) -> None:
    """Refuse a start whose keys contradict each other; the broker names the first one only."""
    if broker_conf is None or not rules.combines_queue_stores:
        return
    is_alone = conf.STORE_TYPE.of(broker_conf, rules.version).lower() == ROCKSDB
    if is_alone or not conf.DOUBLE_WRITE.of(broker_conf, rules.version):
        return
    if reason := next(_contradictions(broker_conf, rules), ""):
        loader.refuse(broker_conf.path, reason)


def _contradictions(broker_conf: BrokerConf, rules: Rules) -> Iterator[str]:
    version = rules.version
    loaded = conf.LOADED.of(broker_conf, version)
    kinds = {kind.strip().lower() for kind in loaded.split(";")} & KINDS
    if not kinds:
        yield f"{conf.LOADED.name} names no kind of queues: {loaded!r}"
    leading = {}
    for key in (conf.OFFSETS_BY, conf.READ_FROM):
        value = key.of(broker_conf, version)
        leading[key] = value.lower()
        if value.lower() not in kinds:
            yield f"{key.name} is {value!r}, which {conf.LOADED.name} does not load"
    is_led_by_files = {key: value == FILES for key, value in leading.items()}
    light = conf.LIGHT_QUEUES_IN_ROCKSDB.of(broker_conf, version)
    if light and ROCKSDB not in kinds:
        yield f"{conf.LIGHT_QUEUES_IN_ROCKSDB.name} needs queues in RocksDB"
    if light and not is_led_by_files[conf.OFFSETS_BY]:
        yield f"{conf.LIGHT_QUEUES_IN_ROCKSDB.name} needs {conf.OFFSETS_BY.name}=default"
    if conf.SELECTIVE.of(broker_conf, version):
        others = (key for key, is_led in is_led_by_files.items() if not is_led)
        yield from (f"{conf.SELECTIVE.name} needs {key.name}=default" for key in others)
    if rules.may_keep_light_queues_in_rocksdb and not light:
        yield f"{conf.DOUBLE_WRITE.name} needs {conf.LIGHT_QUEUES_IN_ROCKSDB.name}=true"
