"""Messages as hypothesis draws them: any field, either version, any mixture of hosts."""

from __future__ import annotations

from hypothesis import strategies as st

from rmqtool.formats.message import (
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    Message,
    SysFlag,
    sealed,
)

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
ADDRESSES = st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16))
HOST_BITS = SysFlag.BORNHOST_V6_FLAG | SysFlag.STOREHOSTADDRESS_V6_FLAG
NAMES = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=12
)
PROPERTIES = st.dictionaries(NAMES, NAMES, max_size=5)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Draw a message whose lengths and CRC are those a broker would write."""
    magic = draw(st.sampled_from([MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2]))
    longest_topic = 127 if magic == MESSAGE_MAGIC_CODE else 300
    return sealed(
        Message(
            magic_code=magic,
            queue_id=draw(INTS),
            flag=draw(INTS),
            queue_offset=draw(LONGS),
            physical_offset=draw(LONGS),
            sys_flag=draw(INTS) & ~HOST_BITS,
            born_timestamp=draw(LONGS),
            born_address=draw(ADDRESSES),
            born_port=draw(INTS),
            store_timestamp=draw(LONGS),
            store_address=draw(ADDRESSES),
            store_port=draw(INTS),
            reconsume_times=draw(INTS),
            prepared_transaction_offset=draw(LONGS),
            body=draw(st.binary(max_size=60)),
            topic_bytes=draw(st.binary(max_size=longest_topic)),
            properties_bytes=draw(st.binary(max_size=60)),
        )
    )
