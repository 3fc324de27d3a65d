"""The whole prediction: what it refuses to foretell, and that the way to the bytes is no matter."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rmqtool.errors import NotAStore, UnsupportedStore
from rmqtool.startup import predict
from rmqtool.startup.report import steps, verdict
from rmqtool.store.tree import open_store
from tests import inflict
from tests.startup import harm
from tests.stores import broker_conf, fixture_store

NAME = "rocketmq-5.3.3-traffic"


def test_part_of_a_store(tmp_path: Path) -> None:
    """Nothing can be said from the log alone."""
    root = fixture_store(NAME, tmp_path)
    with pytest.raises(NotAStore):
        predict(open_store(root / "commitlog"), "5.3.3")


def test_what_is_not_in_the_files(tmp_path: Path) -> None:
    """What other nodes decide is not foretold, with or without a broker.conf."""
    name = "rocketmq-5.3.3-dledger"
    root = fixture_store(name, tmp_path)
    for store in (open_store(root), open_store(root, broker_conf(name))):
        with pytest.raises(UnsupportedStore):
            predict(store, "5.3.3")


def test_log_in_two_directories(tmp_path: Path) -> None:
    """Several commitlog paths are one log, in the order of the names."""
    root = fixture_store(NAME, tmp_path)
    expected = predict(open_store(root, broker_conf(NAME)), "5.3.3")
    other = tmp_path / "other"
    other.mkdir()
    segments = sorted((root / "commitlog").iterdir())
    for path in segments[::2]:
        shutil.move(path, other / path.name)
    conf = tmp_path / "broker.conf"
    paths = f"storePathCommitLog={root / 'commitlog'},{other}\n"
    conf.write_text(broker_conf(NAME).read_text() + paths)
    prediction = predict(open_store(root, conf), "5.3.3")
    assert (expected.queues, expected.log_maximum) == (prediction.queues, prediction.log_maximum)
    assert len(expected.segments_kept) == len(prediction.segments_kept)
    assert not prediction.loses


def test_links_are_followed(tmp_path: Path) -> None:
    """For the broker a linked segment is a segment."""
    root = fixture_store(NAME, tmp_path)
    expected = predict(open_store(root, broker_conf(NAME)), "5.3.3")
    first = min((root / "commitlog").iterdir())
    away = tmp_path / "away"
    shutil.move(first, away)
    first.symlink_to(away)
    assert expected == predict(open_store(root, broker_conf(NAME)), "5.3.3")


@pytest.mark.parametrize("version", ["4.9.3", "5.5.0"])
def test_holes_are_zeros(version: str, tmp_path: Path) -> None:
    """A sparse queue file and one that was copied without its holes are the same."""
    root = fixture_store(NAME, tmp_path)
    conf = tmp_path / "broker.conf"
    lengths = "mappedFileSizeConsumeQueue=4000000\n"
    conf.write_text(broker_conf(NAME).read_text() + lengths)
    for path in (root / "consumequeue").glob("*/*/*"):
        if int(path.name):
            path.unlink()
        else:
            os.truncate(path, 4_000_000)
    sparse = predict(open_store(root, conf), version)
    for path in (root / "consumequeue").glob("*/*/*"):
        path.write_bytes(path.read_bytes())
    assert sparse == predict(open_store(root, conf), version)
    assert not sparse.refusals


def test_verdict_says_the_worst_first(tmp_path: Path) -> None:
    """One sentence for each kind of outcome."""
    root = fixture_store(NAME, tmp_path)
    conf = broker_conf(NAME)

    def said(version: str) -> str:
        return verdict(predict(open_store(root, conf), version))

    outcome = "a 5.3.3 broker would start after normal recovery"
    assert f"{outcome}: no message lost" == said("5.3")
    harm.touch("abort")(root)
    inflict.flip_field("body", where=0.99)(root)
    assert said("5.3").startswith("a 5.3.3 broker would start after abnormal recovery: ")
    assert said("5.3").endswith(" messages in 3 topics lost, 1 message was lost earlier")
    harm.remove("abort", "consumequeue")(root)
    harm.remove_segments(1, 2)(root)
    assert said("4.9").startswith("a 4.9.3 broker would never come up: ")
    inflict.cut_segment(0, lambda size: size - 1)(root)
    refusal = "commitlog/00000000000000000000: has 131,071 bytes, 131,072 are configured"
    assert f"a 5.3.3 broker would refuse to start: {refusal}" == said("5.3")


def test_what_a_broker_passes_over(tmp_path: Path) -> None:
    """A length with a space at its end is the default for a broker, which then refuses."""
    root = fixture_store(NAME, tmp_path)
    conf = tmp_path / "broker.conf"
    text = broker_conf(NAME).read_text().replace("ConsumeQueue=2000", "ConsumeQueue=2000 ")
    conf.write_text(text)
    prediction = predict(open_store(root, conf), "5.3.3")
    assert not prediction.starts
    (said,) = prediction.ignored
    assert "mappedFileSizeConsumeQueue: '2000 ' is not a number without spaces" in said
    assert "ignore" in {row["step"] for row in steps(prediction)}
