"""The keys of a broker.conf that decide how a start goes, with their defaults.

Source: MessageStoreConfig, BrokerConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnsupportedStore

if TYPE_CHECKING:
    from rmqtool.store.broker_conf import BrokerConf

DEFAULT_RECOVER_FILES: Final = 10  # commitLogRecoverMaxNum; what is not positive means this
HEAP_BYTES: Final = 8 << 30  # -Xmx8g of bin/runbroker.sh
_ROCKSDB_STORE: Final = "defaultRocksDB"
_UNFORESEEABLE: Final = {
    "rocksdbCQDoubleWriteEnable": "queues in RocksDB, too",
    "duplicationEnable": "what is confirmed, the other brokers say",
    "enableControllerMode": "what is confirmed, the controller says",
    "enableDLegerCommitLog": "what is committed, the other nodes say",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the broker was told, as far as its start goes by it.

    Attributes:
        checks_crc: `checkCRCOnRecover`.
        forces_property_crc: `forceVerifyPropCRC`.
        indexes: `messageIndexEnable`.
        index_is_safe: `messageIndexSafe`.
        writes_index_files: `indexFileWriteEnable`.
        rechecks_queues: `recheckReputOffsetFromCq`.
        recover_files: `commitLogRecoverMaxNum`.
        checks_log_offset: `checkCommitLogOffsetOnRecover`.
        accelerates: `enableAcceleratedRecovery`.
        has_ext: `enableConsumeQueueExt`.
        has_lmq: `enableLmq`.
        dispatches_to_many: `enableMultiDispatch`.
        is_master: `brokerId` is 0; only a master goes on behind a record it cannot dispatch.
        heap_bytes: heap of the JVM, not from the file: 4.9 to 5.3.1 allocate what totalSize says.
    """

    checks_crc: bool = True
    forces_property_crc: bool = False
    indexes: bool = True
    index_is_safe: bool = False
    writes_index_files: bool = True
    rechecks_queues: bool = False
    recover_files: int = DEFAULT_RECOVER_FILES
    checks_log_offset: bool = False
    accelerates: bool = False
    has_ext: bool = False
    has_lmq: bool = False
    dispatches_to_many: bool = False
    is_master: bool = True
    heap_bytes: int = HEAP_BYTES


_FLAGS: Final = {
    "checks_crc": "checkCRCOnRecover",
    "forces_property_crc": "forceVerifyPropCRC",
    "indexes": "messageIndexEnable",
    "index_is_safe": "messageIndexSafe",
    "writes_index_files": "indexFileWriteEnable",
    "rechecks_queues": "recheckReputOffsetFromCq",
    "checks_log_offset": "checkCommitLogOffsetOnRecover",
    "accelerates": "enableAcceleratedRecovery",
    "has_ext": "enableConsumeQueueExt",
    "has_lmq": "enableLmq",
    "dispatches_to_many": "enableMultiDispatch",
}


def settings_of(conf: BrokerConf | None) -> Settings:
    """Read the settings; the defaults where the file is not given or silent.

    Raises:
        UsageError: a number is none.
        UnsupportedStore: how the start goes is not in the store's files alone.
    """
    if conf is None:
        return Settings()
    if conf.text("storeType") == _ROCKSDB_STORE:
        raise UnsupportedStore(path=conf.path, reason="storeType: queues in RocksDB")
    for key, reason in _UNFORESEEABLE.items():
        if conf.flag(key):
            raise UnsupportedStore(path=conf.path, reason=f"{key}: {reason}")
    flags = {name: flag for name, key in _FLAGS.items() if (flag := conf.flag(key)) is not None}
    recover_files = conf.integer("commitLogRecoverMaxNum") or 0
    return Settings(
        **flags,
        recover_files=recover_files if recover_files > 0 else DEFAULT_RECOVER_FILES,
        is_master=(conf.integer("brokerId") or 0) == 0,
    )
