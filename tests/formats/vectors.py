"""Bytes that are known from elsewhere: records built by hand from the format's description."""

from __future__ import annotations

RECORD_V1 = bytes.fromhex(
    "00000080daa320a73610a6860000000300000000000000000000000700000000"
    "40000000000000000000018bcfe568000a0000010000d4310000018bcfe56805"
    "0a00000200002a9f0000000000000000000000000000000568656c6c6f09546f"
    "7069635465737400174b455953014f524445522d310254414753015461674102"
)
# The same with a property CRC; total size and properties length count it.
RECORD_V1_WITH_CRC = (
    bytes.fromhex("00000094")
    + RECORD_V1[4:103]
    + bytes.fromhex("002b")
    + RECORD_V1[105:]
    + b"__CRC32#\x010594988440\x02"
)
