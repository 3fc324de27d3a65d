"""The keys of a broker.conf that decide how a start goes, with their defaults.

Source: MessageStoreConfig, BrokerConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.broker import conf
from rmqtool.errors import UnsupportedStore
from rmqtool.store.geometry import as_configured

if TYPE_CHECKING:
    from rmqtool.broker.release import Version
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.tree import Store

HEAP_BYTES: Final = 8 << 30  # -Xmx8g of bin/runbroker.sh
_UNFORESEEABLE: Final = {
    conf.DUPLICATION: "the confirmed end is known by the other brokers",
    conf.CONTROLLER: "the confirmed end is known by the controller",
    conf.DLEDGER: "the committed end is known by the other nodes",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the broker was told, as far as its start goes by it."""

    checks_crc: bool = conf.CHECKS_CRC.default  # `checkCRCOnRecover`
    forces_property_crc: bool = conf.FORCES_PROPERTY_CRC.default  # `forceVerifyPropCRC`
    indexes: bool = conf.INDEX.default  # `messageIndexEnable`
    index_is_safe: bool = conf.INDEX_IS_SAFE.default  # `messageIndexSafe`
    keeps_index_files: bool = True  # `messageIndexEnable` and `indexFileWriteEnable`
    rechecks_queues: bool = conf.RECHECKS_QUEUES.default  # `recheckReputOffsetFromCq`
    recover_files: int = conf.RECOVERED_FILES.default  # `commitLogRecoverMaxNum`
    checks_log_offset: bool = conf.CHECKS_LOG_OFFSET.default  # `checkCommitLogOffsetOnRecover`
    accelerates: bool = conf.ACCELERATES.default  # `enableAcceleratedRecovery`
    has_ext: bool = conf.EXT.default  # `enableConsumeQueueExt`
    calculates_bit_maps: bool = conf.BIT_MAPS.default  # `enableCalcFilterBitMap`
    has_lmq: bool = conf.LMQ.default  # `enableLmq`
    dispatches_to_many: bool = conf.MULTI_DISPATCH.default  # `enableMultiDispatch`
    # `brokerId` is 0; only a master goes on after a record it cannot dispatch
    is_master: bool = True
    # heap of the JVM, not from the file: 4.9 to 5.3.1 allocate what totalSize says
    heap_bytes: int = HEAP_BYTES


def settings_of(broker_conf: conf.BrokerConf | None, version: Version | None = None) -> Settings:
    """Give what a broker of a release goes by; its defaults where the file is silent.

    Raises:
        UnsupportedStore: how the start goes is not in the store's files alone.
    """
    if broker_conf is not None:
        for key, reason in _UNFORESEEABLE.items():
            if key.of(broker_conf, version):
                raise UnsupportedStore(path=broker_conf.path, reason=f"{key.name}: {reason}")
    return Settings(
        checks_crc=conf.CHECKS_CRC.of(broker_conf, version),
        forces_property_crc=conf.FORCES_PROPERTY_CRC.of(broker_conf, version),
        indexes=conf.INDEX.of(broker_conf, version),
        index_is_safe=conf.INDEX_IS_SAFE.of(broker_conf, version),
        keeps_index_files=conf.keeps_index_files(broker_conf, version),
        rechecks_queues=conf.RECHECKS_QUEUES.of(broker_conf, version),
        recover_files=conf.RECOVERED_FILES.of(broker_conf, version),
        checks_log_offset=conf.CHECKS_LOG_OFFSET.of(broker_conf, version),
        accelerates=conf.ACCELERATES.of(broker_conf, version),
        has_ext=conf.EXT.of(broker_conf, version),
        calculates_bit_maps=conf.BIT_MAPS.of(broker_conf, version),
        has_lmq=conf.LMQ.of(broker_conf, version),
        dispatches_to_many=conf.MULTI_DISPATCH.of(broker_conf, version),
        is_master=conf.BROKER_ID.of(broker_conf, version) == 0,
    )


def lengths_of(store: Store, version: Version) -> Geometry:
    """Give the lengths that a broker of a release goes by; without a broker.conf files tell."""
    broker_conf = store.broker_conf
    return store.geometry if broker_conf is None else as_configured(broker_conf, version)
