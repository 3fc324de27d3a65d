"""What the reference says of hostile records is what real message stores do with them.

A log is written by hand, and a store opened on it: every unit and every index entry is compared.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.broker.dispatch import DispatchRules, DispatchThrows, index_keys, parse_delay_levels
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.formats import java
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, entry_position
from rmqtool.formats.message import Message, SysFlag
from tests.broker.bare_store import BareStore
from tests.broker.hostile import NUMBERS
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.scan.segments import placed, segment_bytes
from tests.startup.oracle import Oracle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.broker

FURTHER_VERSIONS: Final = ("4.9.4", "5.0.0", "5.1.0", "5.1.1", "5.1.4", "5.2.0")
LENGTH: Final = 1 << 16
SLOTS, ENTRIES = 100, 4000
LEVELS: Final = "1s 5s 10s"
SETTINGS: Final[dict[str, object]] = {
    "mappedFileSizeCommitLog": LENGTH,
    "mappedFileSizeConsumeQueue": 6000,
    "mapperFileSizeBatchConsumeQueue": 4600,
    "maxHashSlotNum": SLOTS,
    "maxIndexNum": ENTRIES,
    "messageDelayLevel": LEVELS,
    "enableMultiDispatch": True,
    "enableLmq": True,
    "timerWheelEnable": False,
}
BATCH_TOPIC: Final = "batch"
TOPICS: Final = (
    *("T", "%RETRY%g", "%DLQ%g", "%LMQ%p", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"),
    *("rmq_sys_x", "\u6e29\u5ea6"),
)
LONGEST_OFFSET: Final = 12
INNER: Final = SysFlag.INNER_BATCH_FLAG | SysFlag.NEED_UNWRAP_FLAG
Unit = tuple[str, int, int, int | None, int, int, int]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask the sampled releases, and with --all-variants those where a rule changed."""
    everything = metafunc.config.getoption("--all-variants")
    versions = (*VERSIONS, *FURTHER_VERSIONS) if everything else VERSIONS
    metafunc.parametrize("jvm", versions, indirect=True, scope="module")


@pytest.fixture(scope="module")
def jvm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    """Give a Java process of a version."""
    with Jvm(request.param, tmp_path_factory.mktemp("jvm")) as process:
        yield process


def message(topic: str, flags: int = 0, **values: str) -> Message:
    """Make a record; its place is said later."""
    items = (f"{name}\x01{value}" for name, value in values.items())
    return Message(
        topic_bytes=topic.encode(),
        queue_id=2,
        sys_flag=flags,
        store_timestamp=1_700_000_000_000,
        body=b"b",
        properties_bytes="\x02".join(items).encode(),
    )


def light(topic: str, names: str, offsets: str) -> Message:
    """Make a record that names light queues."""
    return message(topic, TAGS="t", INNER_MULTI_DISPATCH=names, INNER_MULTI_QUEUE_OFFSET=offsets)


def hostile() -> Iterator[Message]:
    """Yield records of all kinds that dispatch tells apart."""
    for at, topic in enumerate(TOPICS):
        yield message(topic, UNIQ_KEY=f"u{at}", KEYS=" k  l ", TAGS="TagA")
        for kind in (4, 8, 12):
            yield message(topic, kind, UNIQ_KEY=f"u{at}-{kind}", TAGS="\U0001f600")
        yield light(topic, f"%LMQ%a{at},b{at},c{at}/d", "1,2,3")
    for at, text in enumerate(NUMBERS):
        yield message("SCHEDULE_TOPIC_XXXX", DELAY=text, TAGS="TagA", KEYS="k")
        yield message("T", INNER_NUM=text, INNER_BASE="7", KEYS="k")
        yield message("T", INNER_NUM="1", INNER_BASE=text, KEYS="k")
        yield message("T", INNER_NUM=text)
        # The place in the file would wrap; a negative one leaves an empty file, which 5.3 refuses.
        if len(text) < LONGEST_OFFSET and not text.startswith("-"):
            yield light("T", f"n{at}", text)
    for at, (names, offsets) in enumerate(
        (
            ("e#,", "1"),
            ("f#,,", "1,"),
            (",", "1"),
            (",g#", "0,1"),
            ("h#", "1,2"),
            ("i#,i#", "1,2"),
            ("T,j#", "1,2"),
            ("\u3000", "1"),
            ("k#", "\u3000"),
            ("l#/m,n#", "x,1"),
            ("%LMQ%o#", "\uff15"),
        )
    ):
        yield light("T", names.replace("#", str(at)), offsets)
    pairs: tuple[dict[str, str], ...] = (
        {},
        {"INNER_NUM": "3", "INNER_BASE": "1"},
        {"INNER_NUM": "-1", "INNER_BASE": "1"},
    )
    for values in pairs:
        yield message(BATCH_TOPIC, INNER, TAGS="t", **values)
        yield message(BATCH_TOPIC, 0, TAGS="t", **values)


def numbered(messages: Sequence[Message]) -> list[Message]:
    """Give records the queue offsets that they have one behind the other."""
    seen: Counter[str] = Counter()
    found = []
    for message in messages:
        found.append(message._replace(queue_offset=seen[message.topic]))
        if message.sys_flag & 0xC in (0, 8):
            seen[message.topic] += 1
    return found


def throws(rules: DispatchRules, one: Message) -> bool:
    """Tell whether Java throws at a record."""
    try:
        list(rules.places(one))
    except DispatchThrows:
        return True
    return False


def made(jvm: Jvm, root: Path, messages: Sequence[Message]) -> Path:
    """Write a store with a log and nothing else.

    From 5.0 to 5.3.1 only recovery after a crash dispatches; 4.9's does not know the delays.
    """
    (root / "commitlog").mkdir(parents=True)
    (root / "config").mkdir()
    batch = {"attributes": {"queue.type": "BatchCQ"}}
    table = {"topicConfigTable": {BATCH_TOPIC: batch}} if jvm.is_five else {}
    (root / "config/topics.json").write_text(json.dumps(table))
    raw = segment_bytes(messages, size=LENGTH, blank=False)
    (root / f"commitlog/{0:020}").write_bytes(raw)
    if jvm.is_five:
        (root / "abort").touch()
    return root


def opened(jvm: Jvm, root: Path, messages: Sequence[Message], **settings: object) -> BareStore:
    """Write a store and open it."""
    store = BareStore(jvm, made(jvm, root, messages), SETTINGS | settings)
    assert store.load()
    return store


def rules_of(jvm: Jvm, levels: str = LEVELS) -> DispatchRules:
    """Give the rules of a version, configured as the stores here are."""
    topics = frozenset([BATCH_TOPIC])
    release = Rules(Version.parse(jvm.version))
    return DispatchRules(release, parse_delay_levels(levels), True, True, topics)


def expected_units(rules: DispatchRules, messages: Sequence[Message]) -> set[Unit]:
    """Say what the reference says."""
    return {
        (*place, message.physical_offset, message.size, rules.tags_code(message))
        for message in messages
        for place in rules.places(message)
    }


def stored_units(root: Path) -> set[Unit]:
    """Read all units of a store."""
    found: set[Unit] = set()
    for kind, layout in (("consumequeue", CQ_UNIT), ("batchconsumequeue", BATCH_CQ_UNIT)):
        for path in (root / kind).rglob("*"):
            if not path.is_file():
                continue
            *topic, queue_id, name = path.relative_to(root / kind).parts
            raw = path.read_bytes()
            for position in range(0, len(raw) - layout.size + 1, layout.size):
                unit = layout.parse(raw[position : position + layout.size])
                if not 0 < unit["size"] < LENGTH:  # unused, or before the first
                    continue
                offset = unit.get("msg_base_offset", (int(name) + position) // CQ_UNIT_SIZE)
                place = "/".join(topic), int(queue_id), offset, unit.get("batch_size")
                found.add((*place, unit["physical_offset"], unit["size"], unit["tags_code"]))
    return found


def stored_entries(root: Path) -> list[tuple[int, int]]:
    """Read the entries of the key index."""
    found = []
    for path in sorted((root / "index").iterdir()):
        raw = path.read_bytes()
        count = INDEX_HEADER.parse(raw)["index_count"]
        for number in range(1, count):
            entry = INDEX_ENTRY.parse(raw[entry_position(SLOTS, number) :][: INDEX_ENTRY.size])
            found.append((entry["key_hash"], entry["physical_offset"]))
    return found


def test_hostile_records(jvm: Jvm, tmp_path: Path) -> None:
    """Each unit and each index entry is as the reference says, and there is no other."""
    rules = rules_of(jvm)
    sound = [
        message
        for message in hostile()
        if not rules.is_refused(message.topic, message.properties) and not throws(rules, message)
    ]
    messages = placed(numbered(sound))
    store = opened(jvm, tmp_path / "store", numbered(sound))
    store.start()
    store.stop()
    assert expected_units(rules, messages) == stored_units(store.root)
    assert [
        (java.key_hash(message.topic, key), message.physical_offset)
        for message in messages
        for key in index_keys(rules.release, message)
    ] == stored_entries(store.root)


@pytest.mark.parametrize("number", range(4))
def test_refused_records(jvm: Jvm, number: int, tmp_path: Path) -> None:
    """Recovery ends the log before a record whose numbers are none, and before no other."""
    rules = rules_of(jvm)
    kinds = [
        message for message in hostile() if message.properties.keys() & {"DELAY", "INNER_BASE"}
    ]
    refused = [message for message in kinds if rules.is_refused(message.topic, message.properties)]
    one = refused[number * len(refused) // 4]
    store = opened(jvm, tmp_path / "store", [message("T", KEYS="k"), one])
    first = placed([message("T", KEYS="k")])[0]
    assert first.size == store.physical_offsets()[1]


STUCK: Final = {
    "a number that is skipped": light("T", "a/b", "x"),
    "a retry": light("%RETRY%g", "a", "x"),
    "no properties": message("T"),
    "a number": light("T", "a,b", "1,x"),
}


@pytest.mark.parametrize("one", STUCK.values(), ids=STUCK)
def test_java_throws(jvm: Jvm, one: Message, tmp_path: Path) -> None:
    """A store gets no further than a record at which Java throws, or it does not load at all."""
    rules = rules_of(jvm)
    root = made(jvm, tmp_path / "store", [one])
    seen = Oracle(jvm).observe(root, SETTINGS, {})
    assert throws(rules, one) is (seen.hangs or not seen.loaded)
    if not throws(rules, one):
        assert expected_units(rules, placed([one])) == stored_units(root)


def test_delay_levels(jvm: Jvm, tmp_path: Path) -> None:
    """A text that is no delay ends the list of levels, and has no delay of its own."""
    if not jvm.is_five:
        return  # 4.9 does not load such a configuration
    levels = "2s 5x 3s"
    delayed = [message("SCHEDULE_TOPIC_XXXX", DELAY=level) for level in "123"]
    store = opened(jvm, tmp_path / "store", numbered(delayed), messageDelayLevel=levels)
    messages = placed(numbered(delayed))
    assert expected_units(rules_of(jvm, levels), messages) == stored_units(store.root)
