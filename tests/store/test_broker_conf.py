"""What a broker.conf says of the store is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.broker.conf import BrokerConf
from rmqtool.broker.release import Version
from rmqtool.errors import UnreadablePath
from rmqtool.store.broker_conf import read_broker_conf
from rmqtool.store.geometry import (
    DEFAULTS,
    LengthSource,
    as_configured,
    configured_lengths,
    geometry_of,
)
from tests.stores import broker_conf, fixture_names, manifest


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures(name: str) -> None:
    """What a real broker was told is read back, setting by setting."""
    conf = read_broker_conf(broker_conf(name))
    settings = manifest(name)["settings"]
    assert settings == {key: conf.text(key) for key in settings}


@pytest.mark.parametrize("value", ["1g", "0", "-1", "1.5", "4096 "])
def test_lengths_that_are_none(value: str) -> None:
    """What a broker does not take for a length is not taken for one here."""
    conf = BrokerConf("b.conf", {"mappedFileSizeCommitLog": value})
    assert {} == configured_lengths(conf)
    assert DEFAULTS["commitlog"] == as_configured(conf, Version(5, 3, 3)).commitlog.value


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
