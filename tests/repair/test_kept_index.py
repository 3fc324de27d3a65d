"""A repair that shortens a log mends the index files that the next start keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool import repair
from rmqtool.findings.catalogue import Owner, Severity
from rmqtool.findings.registry_commitlog import CL_TIME
from rmqtool.findings.registry_index import IX_HEAD, IX_MISSING
from rmqtool.findings.registry_state import CP_LOGICOFF
from rmqtool.store.release import written_by
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.check.validation import run
from tests.stores import broker_conf, fixture_store

if TYPE_CHECKING:
    from pathlib import Path

INDEX_TIME = 16  # position of indexMsgTimestamp in the checkpoint
QUEUED_OFFSET = 40  # of logicsPhysicalOffset


@pytest.mark.parametrize("name", ["rocketmq-4.9.3-traffic", "rocketmq-5.5.0-traffic"])
def test_newest_record_is_lost(name: str, tmp_path: Path) -> None:
    """No entry of it stays where the checkpoint covers the file, and nothing is left to repair."""
    root, conf = fixture_store(name, tmp_path), broker_conf(name)
    index, last = plain_store.index_files(root)[-1], plain_store.records(root)[-1]
    (root / "abort").touch()
    inflict.write_at(root / "checkpoint", INDEX_TIME, inflict.pack_integer(index.header[1]))
    inflict.write_at(last.path, last.position + 4, b"\1\2\3\4")
    plan = repair.plan(root, broker_conf=str(conf))
    assert any(edit.path.startswith("index/") for edit in plan.edits)
    repair.apply(plan, output=tmp_path / "repaired")
    findings = run(tmp_path / "repaired", conf=conf)[0]
    assert [] == [finding.code for finding in findings if finding.code.owner is Owner.INDEX]
    assert () == tuple(repair.plan(tmp_path / "repaired", broker_conf=str(conf)).edits)


@pytest.mark.parametrize("value", [300, 1 << 40])
@pytest.mark.parametrize("name", ["rocketmq-4.9.3-traffic", "rocketmq-5.3.3-traffic"])
def test_flipped_bits_make_no_release(name: str, value: int, tmp_path: Path) -> None:
    """A field of the checkpoint that only 5.5.0 writes does not decide against other files.

    `repair` wrote entries of tags, took the field away, and `validate` called the entries damage.
    """
    root = fixture_store(name, tmp_path)
    wrote = written_by(open_store(root))
    inflict.write_at(root / "checkpoint", QUEUED_OFFSET, value.to_bytes(8))
    plain_store.index_files(root)[-1].path.unlink()
    assert wrote.version == written_by(open_store(root)).version
    assert {CP_LOGICOFF, IX_MISSING} <= {finding.code for finding in run(root)[0]}
    repair.apply(repair.plan(root), output=tmp_path / "repaired")
    assert [] == [finding.code for finding in run(tmp_path / "repaired")[0]]


def test_made_file_counts_from_what_stays(tmp_path: Path) -> None:
    """Entry 1 of a file that is made counts its time from the end that the file before has.

    Entries of expired records tell the time to the second, the header on disk to the millisecond.
    """
    name = "rocketmq-5.5.0-expired"
    root, conf = fixture_store(name, tmp_path), broker_conf(name)
    min((root / "commitlog").iterdir()).unlink()
    sorted((root / "index").iterdir())[1].unlink()
    plan = repair.plan(root, broker_conf=str(conf))
    assert any(edit.path.startswith("index/") for edit in plan.edits)
    repair.apply(plan, output=tmp_path / "repaired")
    findings = run(tmp_path / "repaired", conf=conf)[0]
    assert [] == [finding.code for finding in findings if finding.code.owner is Owner.INDEX]


def test_entries_of_bridges_stay(tmp_path: Path) -> None:
    """A header that follows a damaged store time is left alone, and so are entries of bridges.

    They were taken out where the index was looked at again, and their times told from that header.
    """
    name = "rocketmq-5.5.0-lmq"
    root, conf = fixture_store(name, tmp_path), broker_conf(name)
    inflict.flip_field("store_timestamp", byte=6, bit=7, where=0.0)(root)
    torn = plain_store.records(root)[2]
    inflict.write_at(torn.path, torn.position + 316, bytes(102_400))
    repaired = tmp_path / "repaired"
    repair.apply(repair.plan(root, broker_conf=str(conf)), output=repaired)
    again = repair.plan(repaired, broker_conf=str(conf))
    assert [] == again.edits
    index = [left for left in again.left if left.code.owner is Owner.INDEX]
    assert [IX_HEAD] == [left.code for left in index]
    findings = [it.code for it in run(repaired, conf=conf)[0] if it.severity is not Severity.NOTE]
    assert {IX_HEAD, CL_TIME} == set(findings)
