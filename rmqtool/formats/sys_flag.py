"""The `sysFlag` word of a message record: its bits, and words for them.

Flag words stay integers; bits that no release assigns are kept and named by nobody.
Source: MessageSysFlag, 4.9.3 to 5.5.0; CompressionType#findByValue, 4.9.4+ and 5.0.0+.
"""

from __future__ import annotations

from typing import Final


class SysFlag:
    """Bits of `sys_flag`, under Java's names; plain integers, as kernels read them, too."""

    COMPRESSED_FLAG: Final = 0x001
    MULTI_TAGS_FLAG: Final = 0x002
    TRANSACTION_NOT_TYPE: Final = 0x000
    TRANSACTION_PREPARED_TYPE: Final = 0x004
    TRANSACTION_COMMIT_TYPE: Final = 0x008
    TRANSACTION_ROLLBACK_TYPE: Final = 0x00C  # both bits: also the mask of the type
    BORNHOST_V6_FLAG: Final = 0x010
    STOREHOSTADDRESS_V6_FLAG: Final = 0x020
    NEED_UNWRAP_FLAG: Final = 0x040
    INNER_BATCH_FLAG: Final = 0x080
    COMPRESSION_TYPE_COMPARATOR: Final = 0x700
    COMPRESSION_LZ4_TYPE: Final = 0x100
    COMPRESSION_ZSTD_TYPE: Final = 0x200
    COMPRESSION_ZLIB_TYPE: Final = 0x300


_TRANSACTIONS: Final = {
    SysFlag.TRANSACTION_NOT_TYPE: "none",
    SysFlag.TRANSACTION_PREPARED_TYPE: "prepared",
    SysFlag.TRANSACTION_COMMIT_TYPE: "commit",
    SysFlag.TRANSACTION_ROLLBACK_TYPE: "rollback",
}
_COMPRESSIONS: Final = {
    0x000: "zlib",  # brokers before 4.9.4 know no other
    SysFlag.COMPRESSION_LZ4_TYPE: "lz4",
    SysFlag.COMPRESSION_ZSTD_TYPE: "zstd",
    SysFlag.COMPRESSION_ZLIB_TYPE: "zlib",
}
_SINGLE_BITS: Final = {
    SysFlag.COMPRESSED_FLAG: "compressed",
    SysFlag.MULTI_TAGS_FLAG: "multi_tags",
    SysFlag.BORNHOST_V6_FLAG: "born_host_v6",
    SysFlag.STOREHOSTADDRESS_V6_FLAG: "store_host_v6",
    SysFlag.NEED_UNWRAP_FLAG: "need_unwrap",
    SysFlag.INNER_BATCH_FLAG: "inner_batch",
}
ASSIGNED_BITS: Final = 0x7FF  # what the compared releases give a meaning to


def transaction(sys_flag: int) -> str:
    """Give the transaction type: none, prepared, commit or rollback."""
    return _TRANSACTIONS[sys_flag & SysFlag.TRANSACTION_ROLLBACK_TYPE]


def compression(sys_flag: int) -> str:
    """Give the encoding of the body: none, zlib, lz4, zstd, or unknown (there Java throws)."""
    if not sys_flag & SysFlag.COMPRESSED_FLAG:
        return "none"
    return _COMPRESSIONS.get(sys_flag & SysFlag.COMPRESSION_TYPE_COMPARATOR, "unknown")


def names(sys_flag: int) -> tuple[str, ...]:
    """Give a word for each bit that is set, lowest first; unassigned bits as one hex number."""
    words = [word for bit, word in _SINGLE_BITS.items() if sys_flag & bit]
    if kind := sys_flag & SysFlag.TRANSACTION_ROLLBACK_TYPE:
        words.append(_TRANSACTIONS[kind])
    if sys_flag & SysFlag.COMPRESSED_FLAG:
        words.append(compression(sys_flag))
    if unassigned := sys_flag & 0xFFFFFFFF & ~ASSIGNED_BITS:
        words.append(f"{unassigned:#x}")
    return tuple(words)
