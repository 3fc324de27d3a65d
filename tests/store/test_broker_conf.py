"""broker.conf is read as Java's Properties reads it; what it says of the store is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.store.broker_conf import BrokerConf, parse_properties, read_broker_conf
from rmqtool.store.geometry import DEFAULTS, LengthSource, configured_lengths, geometry_of
from tests.stores import broker_conf, fixture_names, manifest


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
    assert expected == parse_properties(text.encode("iso-8859-1"))


def test_bytes_that_are_no_text() -> None:
    """Any bytes can be read: Properties takes each for one character."""
    assert {"a": "\xff\x00"} == parse_properties(b"a=\xff\x00")


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures(name: str) -> None:
    """What a real broker was told is read back, setting by setting."""
    conf = read_broker_conf(broker_conf(name))
    settings = manifest(name)["settings"]
    assert settings == {key: conf.text(key) for key in settings}


def test_values() -> None:
    """Numbers, flags and lists of paths."""
    conf = BrokerConf("x", {"n": " 12 ", "f": "TRUE", "p": "/b , /a,,/a", "e": ""})
    assert (12, True, ("/a", "/b")) == (conf.integer("n"), conf.flag("f"), conf.paths("p"))
    assert (None, None, ()) == (conf.integer("e"), conf.flag("no"), conf.paths("no"))


@pytest.mark.parametrize("value", ["1g", "0", "-1", "1.5"])
def test_lengths_that_are_none(value: str) -> None:
    """A length that is none is refused by name, as all else would be judged by it."""
    conf = BrokerConf("b.conf", {"mappedFileSizeCommitLog": value})
    with pytest.raises(UsageError, match=r"b\.conf: mappedFileSizeCommitLog"):
        configured_lengths(conf)


def test_lengths_are_rounded() -> None:
    """Queue files hold whole units, and compaction lengths follow from each other."""
    conf = BrokerConf(
        "x",
        {
            "mappedFileSizeConsumeQueue": "5999",
            "mapperFileSizeBatchConsumeQueue": "4601",
            "compactionMappedFileSize": "104857600",
        },
    )
    assert {
        "consume_queue": 6000,
        "batch_queue": 4601,  # not rounded by the broker
        "compaction_queue": 10_485_746,
        "compaction_log": 104_857_460,
    } == configured_lengths(conf)
    assert DEFAULTS["compaction_log"] == 104_857_460


def test_precedence() -> None:
    """Configured wins over the files, the files over the default, and each says so."""
    found = {"consume_queue": 2000, "commitlog": 3000, "timer_log": 0}
    geometry = geometry_of({"commitlog": 4096}, found)
    assert (4096, LengthSource.CONFIGURED) == (geometry.commitlog.value, geometry.commitlog.source)
    assert (2000, LengthSource.FILES) == (
        geometry.consume_queue.value,
        geometry.consume_queue.source,
    )
    assert LengthSource.DEFAULT == geometry.timer_log.source


def test_unreadable(tmp_path: Path) -> None:
    """A configuration file that is not there is one clear error."""
    with pytest.raises(UnreadablePath, match="no such file"):
        read_broker_conf(tmp_path / "none.conf")
