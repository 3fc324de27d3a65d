"""The broker's JSON: fastjson's two layouts, strict JSON, and hostile text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import DecodeError
from rmqtool.formats import config, config_shapes
from rmqtool.formats.config_shapes import ConsumerOffset, DataVersion, parse_file

FASTJSON_1 = b"""{
\t"dataVersion":{
\t\t"counter":1,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"offsetTable":{
\t\t"TopicTest@CID_test":{0:250,1:251
\t\t},
\t\t"%RETRY%CID_test@CID_test":{0:7
\t\t}
\t}
}"""
FASTJSON_2 = b"""{
\t"dataVersion":{
\t\t"counter":1,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"offsetTable":{
\t\t"TopicTest@CID_test":{
\t\t\t0:250,
\t\t\t1:251
\t\t},
\t\t"%RETRY%CID_test@CID_test":{
\t\t\t0:7
\t\t}
\t}
}"""
STRICT = (
    FASTJSON_2.replace(b"0:250", b'"0":250').replace(b"1:251", b'"1":251').replace(b"0:7", b'"0":7')
)


@pytest.mark.parametrize("raw", [FASTJSON_1, FASTJSON_2, STRICT])
def test_dialects(raw: bytes) -> None:
    """Both writers and strict JSON say the same."""
    document = config.parse_object(raw, path="config/consumerOffset.json")
    assert list(config_shapes.consumer_offsets(document)) == [
        ConsumerOffset("TopicTest", "CID_test", 0, 250),
        ConsumerOffset("TopicTest", "CID_test", 1, 251),
        ConsumerOffset("%RETRY%CID_test", "CID_test", 0, 7),
    ]
    assert config_shapes.data_version(document) == DataVersion(1, 1700000000000, 0)


def test_strings_are_left_alone() -> None:
    """What looks like a bare key inside of a string is text."""
    raw = rb'{"a":"{1:2,3:4 \" ,5:6","b":{-1:"{7:8}"}}'
    assert config.parse(raw) == {"a": '{1:2,3:4 " ,5:6', "b": {"-1": "{7:8}"}}


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), JSON, min_size=1, max_size=4))
def test_bare_keys(entries: dict[int, config.Json]) -> None:
    """Bare integer keys are read with any values, and become text."""
    members = ",".join(f"{key}:{json.dumps(value)}" for key, value in entries.items())
    expected = {str(key): value for key, value in entries.items()}
    assert expected == config.parse(f"{{{members}}}".encode())


HOSTILE = {
    "empty": b"",
    "cut off": FASTJSON_1[:-40],
    "not text": b"\xff\xfe\x00",
    "deep": b'{"a":' * 20_000,
    "deep with bare keys": b"{1:" * 20_000,
    "endless string": b'{1:"' + b'\\"' * 200_000,
    "endless spaces": b"{1" + b" " * 200_000,
    "many digits": b'{"a":' + b"9" * 10_000 + b"}",
    "no number": b'{"a":NaN}',
    "two documents": b"{1:2}{3:4}",
    "unquoted name": b"{name:1}",
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_hostile(raw: bytes) -> None:
    """What the broker cannot load is one error."""
    with pytest.raises(DecodeError, match=r"^config/topics\.json: at "):
        config.parse(raw, path="config/topics.json")


def test_place_of_error() -> None:
    """The place is that in the file, not in what was made of it."""
    with pytest.raises(DecodeError) as caught:
        config.parse(b'{1:2,3:4,"\xc3\xbc":?}')
    assert caught.value.position == 14


@pytest.mark.parametrize("raw", [b"[1]", b"1", b'"text"'])
def test_not_an_object(raw: bytes) -> None:
    """A file of another shape is an error where an object is needed."""
    with pytest.raises(DecodeError):
        config.parse_object(raw)


def test_null() -> None:
    """Brokers take `null` for an object without anything in it."""
    assert {} == config.parse_object(b"null")


@given(st.binary(max_size=100) | st.text(alphabet='{}[],:"\\ 019au-.', max_size=60).map(str.encode))
def test_any_bytes(raw: bytes) -> None:
    """Any bytes are a document that can be written again, or an error."""
    try:
        found = config.parse(raw)
    except DecodeError:
        return
    assert json.dumps(found, ensure_ascii=False).encode()


def test_lone_surrogate() -> None:
    """An escaped lone surrogate becomes a mark; a pair stays a character."""
    assert config.parse(rb'{"\ud800":["\udfff","\ud83d\ude00"]}') == {
        "\ufffd": ["\ufffd", "\U0001f600"]
    }


TABLES = [
    "dataVersion",
    "topicConfigTable",
    "offsetTable",
    "lmqOffsetTable",
    "subscriptionGroupTable",
    "filterDataByTopic",
]
SHAPES = [
    config_shapes.topics,
    config_shapes.consumer_offsets,
    config_shapes.lmq_consumer_offsets,
    config_shapes.subscription_groups,
    config_shapes.consumer_filters,
]


@given(JSON)
def test_shapes_never_raise(table: config.Json) -> None:
    """Whatever stands where a table should be gives rows or none."""
    document = dict.fromkeys(TABLES, table)
    assert all(isinstance(list(shape(document)), list) for shape in SHAPES)
    assert isinstance(config_shapes.delay_offsets(document), dict)
    assert isinstance(config_shapes.data_version(document), DataVersion)


def test_shapes() -> None:
    """Each shape, on an entry as a broker writes it."""
    document = {
        "topicConfigTable": {
            "T": {
                "attributes": {"queue.type": "BatchCQ"},
                "order": False,
                "perm": 6,
                "readQueueNums": 4,
                "topicFilterType": "SINGLE_TAG",
                "topicName": "T",
                "topicSysFlag": 0,
                "writeQueueNums": 8,
            }
        },
        "subscriptionGroupTable": {"G": {"consumeEnable": True, "retryMaxTimes": 16}},
        "offsetTable": {"1": 5, "2": 6},
        "lmqOffsetTable": {"%LMQ%a@G": 3},
        "filterDataByTopic": {
            "T": {
                "groupFilterData": {
                    "G": {
                        "bloomFilterData": {"bitNum": 112, "bitPos": [1, 2, 3]},
                        "bornTime": 5,
                        "deadTime": 0,
                        "expression": "a > 1",
                    }
                },
                "topic": "T",
            }
        },
    }
    topic = next(config_shapes.topics(document))
    assert (8, 4, 6) == (topic.write_queue_nums, topic.read_queue_nums, topic.perm)
    assert topic.is_batch_queue
    assert not topic.is_compaction
    assert next(config_shapes.subscription_groups(document)).retry_max_times == 16
    assert config_shapes.delay_offsets(document) == {1: 5, 2: 6}
    assert list(config_shapes.lmq_consumer_offsets(document)) == [
        ConsumerOffset("%LMQ%a", "G", 0, 3)
    ]
    filter_ = next(config_shapes.consumer_filters(document))
    assert (112, (1, 2, 3), "a > 1") == (
        filter_.bit_count,
        filter_.bit_positions,
        filter_.expression,
    )


@pytest.mark.parametrize(
    ("name", "table", "is_taken"),
    [
        ("delayOffset.json", "{1:5}", True),
        ("delayOffset.json", "{}", True),
        ("delayOffset.json", "null", True),
        ("delayOffset.json", "[1]", False),
        ("delayOffset.json", '{"a@b":{0:1,1:2}}', False),
        ("delayOffset.json", '{"a@b":5}', False),
        ("delayOffset.json", "{1:{0:1}}", False),
        ("consumerOffset.json", '{"a@b":{0:1}}', True),
        ("consumerOffset.json", "{}", True),
        ("consumerOffset.json", "{1:5}", False),
        ("consumerOffset.json", '{"a@b":5}', False),
        ("consumerOffset.json", '{"a@b":{"x":1}}', False),
        ("lmqConsumerOffset.json", '{"a@b":5}', True),
    ],
)
def test_kind_of_table(name: str, table: str, *, is_taken: bool) -> None:
    """What fastjson refuses to decode, a broker does not take: 1.2.76 to fastjson2 2.0.59."""
    raw = f'{{"offsetTable":{table}}}'.encode()
    if is_taken:
        assert "offsetTable" in parse_file(raw, name=name, path=f"config/{name}.bak")
    else:
        with pytest.raises(DecodeError, match=rf"config/{name}: .*not the table of a {name}"):
            parse_file(raw, name=name, path=f"config/{name}")
