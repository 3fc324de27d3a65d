"""The kernels do to a record what the declarations say."""

from __future__ import annotations

from typing import Final

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import properties
from rmqtool.formats.message import (
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    TOPIC_LENGTH_BYTES,
    Message,
    sealed,
)
from rmqtool.machine.intrinsics import SLACK
from rmqtool.relog import fields as at
from rmqtool.relog import kernels
from rmqtool.relog.encoder import has_crc_item, placed, with_crc
from rmqtool.scan import crc

LONG: Final = st.integers(-(1 << 63), (1 << 63) - 1)
RESERVED: Final = properties.CRC32.encode() + b"\x01" + b"0" * 10 + b"\x02"


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Give a record of any version, with hosts of any kind, with or without property CRC."""
    text = properties.encode({"TAGS": "A", "UNIQ_KEY": draw(st.text("abc", min_size=1))})
    return with_crc(
        sealed(
            Message(
                magic_code=draw(st.sampled_from((MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2))),
                sys_flag=draw(st.integers(0, 0x7FF)),
                born_address=draw(st.binary(min_size=4, max_size=4) | st.just(bytes(16))),
                store_address=draw(st.binary(min_size=4, max_size=4) | st.just(bytes(16))),
                queue_offset=draw(LONG),
                physical_offset=draw(LONG),
                body=draw(st.binary(max_size=300)),
                topic_bytes=draw(st.binary(min_size=1, max_size=127)),
                properties_bytes=text + (RESERVED if draw(st.booleans()) else b""),
            )
        )
    )


@given(
    raws=st.lists(messages(), min_size=1, max_size=4),
    numbers=st.lists(LONG, min_size=12, max_size=12),
    host=st.sampled_from((b"", bytes(range(8)), bytes(range(20)))),
    magic_code=st.sampled_from((None, MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2)),
)
def test_placed(raws: list[bytes], numbers: list[int], host: bytes, magic_code: int | None) -> None:
    """Copied and stamped, records are those that the scalar encoder gives."""
    expected = [
        placed(
            raw,
            physical_offset=numbers[3 * number],
            queue_offset=numbers[3 * number + 1],
            prepared_transaction_offset=numbers[3 * number + 2],
            host=host,
            magic_code=magic_code,
        )
        for number, raw in enumerate(raws)
    ]
    count = len(raws)
    window = np.frombuffer(b"".join(raws) + bytes(SLACK), np.uint8).copy()
    sizes, new = (np.array([*map(len, some)], np.int64) for some in (raws, expected))
    fields = np.zeros((at.ROWS, count), np.int64)
    fields[at.START], fields[at.SIZE] = np.cumsum(new) - new, new
    fields[at.OFFSET], fields[at.QUEUE_OFFSET], fields[at.PREPARED] = (
        numbers[row : 3 * count : 3] for row in range(3)
    )
    fields[at.HAS_CRC] = [has_crc_item(raw[-32:]) for raw in raws]
    moves = np.stack([np.cumsum(sizes) - sizes, sizes, fields[at.START]])
    out = np.empty(int(new.sum()) + SLACK, np.uint8)
    if host or magic_code is not None:
        width = 0 if magic_code is None else TOPIC_LENGTH_BYTES[magic_code]
        new_host = np.frombuffer(host, np.uint8).copy()
        kernels.gather_changed(window, moves, new_host, width, out)
    else:
        kernels.gather(window, moves, out)
    kernels.stamp(out, fields, crc.checksum())
    assert b"".join(expected) == out[: int(new.sum())].tobytes()
