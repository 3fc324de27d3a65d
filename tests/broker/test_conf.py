"""broker.conf is read as Java reads it: its text, each value, and what comes of a slip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.broker import conf
from rmqtool.broker.complaints import complaints
from rmqtool.broker.conf import KEYS, BrokerConf
from rmqtool.broker.release import LINES, Version
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.stores import broker_conf, fixture_names, manifest

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = LINES["5.5"]


def told(text: str) -> BrokerConf:
    """Read a text."""
    return BrokerConf.parse("broker.conf", text.encode("iso-8859-1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("  a = 1 ", {"a": "1 "}),
        ("a:1\r\nb 2\rc", {"a": "1", "b": "2", "c": ""}),
        ("# a=1\n! b=2\n\n c=3", {"c": "3"}),
        ("a=1,\\\n   2\nb=3", {"a": "1,2", "b": "3"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a\\=b=c=d", {"a=b": "c=d"}),
        ("a=\\u00e9\\t\\q", {"a": "\u00e9\tq"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\", {"a": "b"}),
        ("=x", {}),
    ],
)
def test_properties(text: str, expected: dict[str, str]) -> None:
    """Separators, comments, continued lines and escapes are Java's."""
    assert expected == told(text).values


def test_bytes_that_are_no_text() -> None:
    """Any bytes can be read: Properties takes each for one character."""
    assert {"a": "\xff\x00"} == told("a=\xff\x00").values


def test_lines() -> None:
    """Each key knows its line, a continued one the first, one that is given twice the last."""
    assert {"a": 6, "b": 3, "c": 5} == told("# x\n\nb=1,\\\n 2\nc=3\na=1").lines
    assert {"a": 2} == told("a=1\na=2").lines


INTEGERS = {
    "131072": 131072, "+5": 5, "-5": -5, "0": 0, "131072 ": None, "1e5": None, "": None, "1L": None,
    "2147483648": None, "\u0663": 3,
}  # fmt: skip
FLAGS = {"true": True, "TRUE": True, "true ": False, "yes": False, "1": False, "": False}


@pytest.mark.parametrize("text", INTEGERS)
def test_integers(text: str) -> None:
    """What Java cannot read leaves the default."""
    given = BrokerConf("x", {"mappedFileSizeCommitLog": text})
    assert INTEGERS[text] == conf.COMMITLOG_LENGTH.given(given)
    default = conf.COMMITLOG_LENGTH.default
    expected = default if INTEGERS[text] is None else INTEGERS[text]
    assert expected == conf.COMMITLOG_LENGTH.of(given)


@pytest.mark.parametrize("text", FLAGS)
def test_flags(text: str) -> None:
    """All but "true" is false, whatever the default."""
    assert FLAGS[text] is conf.INDEX.of(BrokerConf("x", {"messageIndexEnable": text}))
    assert conf.INDEX.of(None)


def test_kind_of_queues() -> None:
    """Brokers take the name of a kind in any case."""
    for text in ("defaultRocksDB", "defaultrocksdb", "DEFAULTROCKSDB"):
        given = conf.BrokerConf("broker.conf", {"storeType": text})
        assert conf.STORE_TYPE.of(given) == conf.ROCKSDB_STORE
    other = conf.BrokerConf("broker.conf", {"storeType": "rocks"})
    assert conf.STORE_TYPE.of(other) == "rocks"


def test_key_of_a_newer_release() -> None:
    """A release does not know what a later one brought."""
    given = told("commitLogRecoverMaxNum=3")
    assert (10, 3) == tuple(
        conf.RECOVERED_FILES.of(given, Version.parse(text)) for text in ("5.3.4", "5.4.0")
    )


@pytest.mark.parametrize("text", ["0", "-3"])
def test_files_that_are_recovered(text: str) -> None:
    """Brokers put ten where the number is not positive."""
    assert 10 == conf.RECOVERED_FILES.of(told(f"commitLogRecoverMaxNum={text}"))


@pytest.mark.parametrize(
    ("line", "version", "words"),
    [
        ("mapedFileSizeConsumeQueue=6000", "5.3.3", "the key is mappedFileSizeConsumeQueue"),
        ("storePathCommitlog=/a", "5.3.3", "the key is storePathCommitLog"),
        ("mappedFileSizeCommitLog=131072 ", "5.3.3", "the default 1073741824 counts"),
        ("mappedFileSizeCommitLog=-1", "5.3.3", "not a length"),
        ("enableLmq=yes", "5.3.3", "it counts as false"),
        ("commitLogRecoverMaxNum=3", "5.3.3", "5.4.0 brought it"),
        ("commitLogRecoverMaxNum=0", "5.5.0", "the default 10 counts"),
        ("storePathRootDir=/a ", "5.1.4", "part of the path"),
        ("storePathRootDir=/a ", "5.2.0", ""),
        ("messageDelayLevel=", "5.2.0", "the default 1s"),
        ("flushDiskType=ASYNC_FLUSH", "5.3.3", ""),
        ("enableLmq=False", "5.3.3", ""),
        ("storePathConsumeQueue=/q", "5.3.3", "no release knows this key"),
        ("storePathBrokerIdent=/q", "5.3.3", "the key is storePathBrokerIdentity"),
        ("enableControler=true", "5.3.3", "the nearest key is enableControllerMode"),
        ("qqqqqqqqqqqqqqq=1", "5.3.3", "no release knows this key, so 5.3.3 ignores it"),
        ("BrokerName=a", "5.3.3", "the key is brokerName"),
        ("sendMessageThreadPoolNums=x", "5.3.3", "the default counts"),
        ("sendMessageThreadPoolNums=16", "5.3.3", ""),
        ("autoCreateTopicEnable=no", "5.3.3", "it counts as false"),
        ("aclCacheMaxNum=5", "5.2.0", "5.3.0 brought it"),
        ("enableMultiDispatch=true", "4.9.2", "4.9.3 brought it"),
        ("configBlackList=a", "4.9.8", ""),
        ("configBlackList=a", "5.1.0", "5.2.0 brought it"),
        ("ossBucket=a", "5.3.3", "5.1.2 was the last release that knew it"),
        ("rmqAddressServerDomain=a", "4.9.3", ""),
    ],
)
def test_complaints(line: str, version: str, words: str) -> None:
    """What a broker passes over without a word is said, with its line."""
    found = [
        str(complaint) for complaint in complaints(told(f"# x\n{line}"), Version.parse(version))
    ]
    assert bool(words) == bool(found)
    for complaint in found:
        assert complaint.startswith("line 2: ")
        assert words in complaint


@pytest.mark.parametrize("name", fixture_names())
def test_nothing_about_sound_files(name: str) -> None:
    """Of the files that real brokers were started with, only keys of later releases are named."""
    given = BrokerConf.parse("x", broker_conf(name).read_bytes())
    found = [*complaints(given, Version.parse(manifest(name)["version"]))]
    assert {complaint.key for complaint in found} <= {"transactionOpBatchInterval"}
    assert all(complaint.is_note for complaint in found)


@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
def test_like_java(version: str, tmp_path: Path) -> None:
    """Keys, defaults and what comes of each text are those of the broker's own classes."""
    texts = ["131072 ", "140", "x", "", "true", "true ", "0", " a "]
    with Jvm(version, tmp_path) as jvm:
        names = ("store.config.MessageStoreConfig", "common.BrokerConfig")
        kinds = [jvm.rocketmq(name) for name in names]
        mix_all = jvm.rocketmq("common.MixAll")
        methods = {
            kind: {str(one.getName()) for one in kind().getClass().getMethods()} for kind in kinds
        }
        setters = {
            name[3].lower() + name[4:]
            for method in methods.values()
            for name in method
            if name.startswith("set")
        }
        release = Version.parse(version)
        known = {name for name, key in KEYS.items() if key.is_known_to(release)}
        assert known <= setters
        assert not (KEYS.keys() - known) & setters
        for key in (KEYS[name] for name in sorted(known - {"commitLogRecoverMaxNum"})):
            for text in [None, *texts]:
                values = {} if text is None else {key.name: text}
                properties = jvm.properties(values)
                method = []
                for kind in kinds:
                    getter = _getter(methods[kind], key.name)
                    if getter is not None:
                        made = kind()
                        mix_all.properties2Object(properties, made)
                        method.append(getattr(made, getter)())
                ours = key.of(BrokerConf("x", values), release)
                if isinstance(ours, str):  # spaces: see Rules.trims_settings; paths have none here
                    continue
                assert [ours] == method, (key.name, text)


def _getter(methods: set[str], name: str) -> str | None:
    named = (f"{kind}{name[0].upper()}{name[1:]}" for kind in ("get", "is"))
    return next((one for one in named if one in methods), None)
