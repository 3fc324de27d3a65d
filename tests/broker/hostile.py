"""Records that no client would write, but a log may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from rmqtool.broker.release import Version
from rmqtool.formats.message import Message, SysFlag

if TYPE_CHECKING:
    from rmqtool.broker.dispatch import DispatchRules

TOPICS = [
    *(b"T", b"batch", b"%RETRY%g", b"%DLQ%g", b"%LMQ%p", b"SCHEDULE_TOPIC_XXXX"),
    *(b"rmq_sys_wheel_timer", b"rmq_sys_x", "\u6e29\u5ea6".encode(), b"\xff\xfe", b""),
]
NUMBERS = [
    *("0", "1", "7", "18", "99", "+2", "-1", "00000000000000000000003", "x", " 1", "1 ", "", "3.5"),
    *("\uff12", "\u0663", "\U0001d7d9", "-", "+", "2147483647", "2147483648", "-2147483648"),
    *("32767", "32768", "-32768", "-32769", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", " ", "\u3000"),
]
QUEUES = ["a", "a", "T", "%LMQ%a", "%LMQ%b", "a/b", "", " ", "\u3000", "batch"]
PLAIN = ["TagA", "k1 k2", " k  k ", " ", "", "\u6e29", "\U0001f600"]
FLAGS = [0, 0, 0, 4, 8, 12, SysFlag.INNER_BATCH_FLAG, SysFlag.INNER_BATCH_FLAG | 8, -1 & ~0x30]

_number = st.sampled_from(NUMBERS)


@st.composite
def _light_queues(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Draw names and offsets, most often as many of one as of the other."""
    names = draw(st.lists(st.sampled_from(QUEUES), min_size=1, max_size=4))
    count = len(names) if draw(st.integers(0, 3)) else draw(st.integers(0, 4))
    offsets = [draw(st.sampled_from([*"123456", *NUMBERS])) for _ in range(count)]
    return [
        ("INNER_MULTI_DISPATCH", ",".join(names)),
        ("INNER_MULTI_QUEUE_OFFSET", ",".join(offsets)),
    ]


_items = st.one_of(
    st.tuples(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "other"]), st.sampled_from(PLAIN)).map(
        lambda item: [item]
    ),
    _number.map(lambda text: [("DELAY", text)]),
    st.tuples(_number, _number).map(lambda pair: [("INNER_NUM", pair[0]), ("INNER_BASE", pair[1])]),
    _number.map(lambda text: [("INNER_NUM", text)]),
    _light_queues(),
)


@st.composite
def hostile_messages(draw: st.DrawFn, rules: DispatchRules) -> Message:
    """Draw a message of a hostile topic, with hostile numbers in its properties.

    Args:
        draw: of hypothesis.
        rules: a message without properties is not drawn where Java throws at one.
    """
    items = [one for some in draw(st.lists(_items, min_size=1, max_size=4)) for one in some]
    if rules.multi_dispatch and rules.release.version == Version(4, 9, 3):
        items.append(("other", "x"))
    ends = draw(st.sampled_from([b"", b"\x02", b"\x02\x02"]))
    values = b"\x02".join(name.encode() + b"\x01" + value.encode() for name, value in items)
    return Message(
        topic_bytes=draw(st.sampled_from(TOPICS)),
        queue_id=draw(st.sampled_from([0, 1, -1, 2**31 - 1])),
        queue_offset=draw(st.integers(0, 9)),
        sys_flag=draw(st.sampled_from(FLAGS)),
        store_timestamp=draw(st.sampled_from([1_700_000_000_000, 0, -1, 2**63 - 1])),
        body=b"b",
        properties_bytes=values + ends,
    )
