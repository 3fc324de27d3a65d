"""No miss: each named damage is found, under its own codes and no others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import DecodeError
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import Finding
from rmqtool.findings.registry import CODES
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.message import decode
from tests import damage_rocksdb, inflict, plain_store
from tests.check.validation import run
from tests.damage import DAMAGES, Damage, NotApplicable
from tests.plain_store import index_files
from tests.stores import broker_conf, fixture_names, fixture_store

ORDINARY: Final = "traffic"  # several segments, queue and index files, all kinds of messages
# Codes that no file alone can have, with the test that produces each.
ELSEWHERE: Final = {
    "BC-KEY": "tests/check/test_broker_conf.py: no file of a store",
    "BC-LEN": "tests/check/test_broker_conf.py",
    "BC-PATH": "tests/check/test_broker_conf.py",
    "CL-VERSION": "tests/check/test_releases.py: a release decides",
    "FS-OWNER": "tests/check/test_access.py: as whom the tests run decides",
    "FS-LOCK": "test_lock_of_a_running_broker",
    "FS-CHANGED": "tests/check/test_manifest.py",
    "TW-LOST": "tests/check/test_timer_wheel.py: it takes a longer timer log",
    "CC-UNIT": "tests/check/test_compaction.py",
    "CC-BASE": "tests/check/test_compaction.py",
    "CC-BEHIND": "tests/check/test_compaction.py",
    "RQ-LIGHT": "tests/check/rocksdb/test_selective.py",
}
QUEUES: Final = frozenset(
    {"consumequeue", "consumequeue_ext", "batchconsumequeue", "compactionLog", "compactionCq"}
)
BETWEEN: Final = frozenset({"CL-TAIL", "CL-STALE", "CL-MAGIC", "CL-SIZE", "CL-CHAIN"})
HOLDER: Final = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("ready", flush=True)
sys.stdin.read()
"""

Give = Callable[[str], Path]
Place = tuple[str, str, int | None, str, str, str]


def _fixtures(damage: Damage) -> list[str]:
    """List the fixtures a damage is done to, a different one first for each damage."""
    names = [name for name in fixture_names() if (damage.fixture or ORDINARY) in name]
    first = sum(map(ord, damage.name)) % len(names)
    return names[first:] + names[:first]


def _place(one: Finding) -> Place:
    path = "broker.conf" if one.code.prefix == "BC" else one.path  # which lies elsewhere
    return one.code, path, one.position, one.expected, one.actual, one.message


@cache
def _before(store: Path, conf: Path, level: str) -> frozenset[Place]:
    """Give what is found in the store before it is damaged."""
    return frozenset(map(_place, run(store, level, conf)[0]))


def _damaged(damage: Damage, name: str, copy_of: Give) -> Path | None:
    """Give a damaged copy of a fixture; None when it has nothing that could be damaged so."""
    store = copy_of(name)
    try:
        if damage.applies_to(store):
            damage.inflict(store)
            return store
    except NotApplicable:
        pass
    shutil.rmtree(store)
    return None


def _judge(damage: Damage, name: str, store: Path, pristine: Path) -> None:
    """Validate a damaged store, and compare the codes with those of the damage."""
    conf = store.parent / "broker.conf"
    conf.write_text(f"{broker_conf(name).read_text()}\n{damage.conf}\n")
    before = _before(pristine, broker_conf(name), damage.level)
    findings, _, _ = run(store, damage.level, conf, damage.version)
    codes = {finding.code for finding in findings if _place(finding) not in before}
    assert set(damage.codes) <= codes
    assert codes <= {*damage.codes, *damage.also}
    for finding in findings:
        _has_its_queue(store, finding)


def _has_its_queue(store: Path, one: Finding) -> None:
    """Compare the fields that name a queue with the path, or with the record that lies there."""
    family, *queue = one.path.split("/")
    of_others = {"CQ-EXPIRED", "FS-NAME"}  # of all queues, and of a queue with another name
    if family in QUEUES and len(queue) > 1 and one.code not in of_others:
        assert [one.topic, str(one.queue_id)] == queue[:2]
    if family == "consumequeue" and len(queue) > 2 and one.position and "CQ" == one.code.prefix:
        assert one.queue_offset == (int(queue[2]) + one.position) // CQ_UNIT.size
    is_of_record = one.position is not None and one.code not in {*BETWEEN, "CL-QOFF-GAP"}
    if family == "commitlog" and "CL" == one.code.prefix and is_of_record:
        raw = (store / one.path).read_bytes()[one.position :]
        try:
            record = decode(raw[: int.from_bytes(raw[:4], "big")])
        except DecodeError:
            return
        own = (record.topic, record.queue_id, record.queue_offset)
        assert own == (one.topic, one.queue_id, one.queue_offset)


@pytest.mark.usefixtures("every_finding")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage(damage: Damage, copy_of: Give, pristine: Give) -> None:
    """A damage gives its codes, and what follows from it is no finding of its own."""
    for name in _fixtures(damage):
        if store := _damaged(damage, name, copy_of):
            _judge(damage, name, store, pristine(name))
            return
    pytest.fail("the damage can be done to no fixture")


@pytest.mark.all_variants
@pytest.mark.usefixtures("every_finding")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_of_every_release(damage: Damage, copy_of: Give, pristine: Give) -> None:
    """The same holds for what each release wrote."""
    for name in _fixtures(damage):
        if store := _damaged(damage, name, copy_of):
            _judge(damage, name, store, pristine(name))
            shutil.rmtree(store)


def test_every_code_is_produced() -> None:
    """Each code of the catalogue is found by at least one damage."""
    produced = {code for damage in DAMAGES.values() for code in damage.codes}
    for rocksdb in (*damage_rocksdb.DAMAGES.values(), damage_rocksdb.EXPIRE):
        produced |= {*rocksdb.codes, *rocksdb.notes}
    assert CODES.keys() - ELSEWHERE.keys() == produced


def test_batch_record_elsewhere(copy_of: Give) -> None:
    """A record of a batch queue that lies elsewhere than it says is one finding, of the log."""
    store = copy_of("rocketmq-5.3.3-batch-queue")
    topics = {path.name.encode() for path in (store / "batchconsumequeue").iterdir()}
    inflict.flip_field("physical_offset", wanted=lambda record: record.bytes_of("topic") in topics)(
        store
    )
    assert ["CL-PHYOFF"] == [finding.code for finding in run(store)[0]]


@pytest.mark.parametrize("has_crashed", [False, True])
def test_slot_past_the_entries(copy_of: Give, *, has_crashed: bool) -> None:
    """After a crash, a slot may name an entry that the header does not count yet: a note."""
    store = copy_of("rocketmq-5.3.3-lmq")
    index = index_files(store)[-1]
    slot = 40 + 4 * (index.entry(index.count - 1)[0] % index.slots)
    inflict.set_integer(index.path, slot, 4, lambda _: index.count)
    if has_crashed:
        (store / "abort").touch()
    findings = [finding for finding in run(store)[0] if finding.code == "IX-SLOT"]
    severity = Severity.NOTE if has_crashed else Severity.DAMAGE
    assert [(slot, severity)] == [(finding.position, finding.severity) for finding in findings]


def test_entry_that_is_never_used(copy_of: Give) -> None:
    """What stands in entry 0 is found there, as long as an entry is."""
    store = copy_of(f"rocketmq-5.3.3-{ORDINARY}")
    DAMAGES["entry-0-used"].inflict(store)
    begin = index_files(store)[0].entry_position(0)
    findings = [finding for finding in run(store)[0] if finding.code == "IX-STALE"]
    assert [(begin, 20)] == [(finding.position, finding.length) for finding in findings]


def test_lock_of_a_running_broker(copy_of: Give) -> None:
    """A store whose lock another process holds is reported as in use."""
    store = copy_of("rocketmq-5.3.3-traffic")
    assert "FS-LOCK" not in {finding.code for finding in run(store)[0]}
    command = [sys.executable, "-c", HOLDER, str(store / "lock")]
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
        assert "FS-LOCK" in {finding.code for finding in run(store)[0]}
        process.communicate("")


@pytest.mark.parametrize(("code", "path"), [("CQ-NOREC", "consumequeue"), ("IX-KEY", "index")])
def test_consequences_alone(code: str, path: str, tmp_path: Path) -> None:
    """Who asks for findings of queues or of the index alone is told what points into lost bytes."""
    name = "rocketmq-5.3.3-traffic"
    store = fixture_store(name, tmp_path)
    before = plain_store.records(store)
    DAMAGES["zero-8-sectors-middle"].inflict(store)
    logs = {file: file.read_bytes() for file in plain_store.segments(store)}
    changed = [one for one in before if not logs[one.path].startswith(one.raw, one.position)]
    options = ValidateOptions(store, broker_conf=str(broker_conf(name)), only=frozenset({code}))
    (told,) = (one for one in validate(options) if "of the log that are lost" in one.message)
    assert (code, path) == (told.code, told.path)
    count = int(told.message.partition(" ")[0])
    assert count == len(changed) if code == "CQ-NOREC" else count >= len(changed)
