"""Real brokers and edits in place keep out of each other's way."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from rmqtool.errors import PlanMismatch, StoreLocked
from rmqtool.writing.directory import spot_of
from rmqtool.writing.edits import Transaction
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import undo
from tests.broker.bare_store import BareStore
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.evidence import snapshot
from tests.stores import fixture_store, manifest

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("version", VERSIONS)
def test_broker_and_edit(version: str, tmp_path: Path) -> None:
    """A broker is kept away, keeps us away, does not mind the undo directory, and ends undo."""
    name = f"rocketmq-{version}-crash"
    root = fixture_store(name, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:  # for the replication of a broker
        settings = {**manifest(name)["settings"], "haListenPort": server.getsockname()[1]}
    queue = next(path for path in sorted(root.glob("consumequeue/*/*")) if path.is_dir())
    with Jvm(version, tmp_path) as jvm:
        store = BareStore(jvm, root, settings)
        process = jvm.java("java.lang.ProcessHandle").current().pid()
        with pytest.raises(StoreLocked, match=str(process)):  # it has not even loaded yet
            StoreLock(root).__enter__()
    with StoreLock(root) as lock, Transaction(lock, command="test") as edits:
        tree = edits.replace_tree(queue.relative_to(root).as_posix())
        for path in queue.iterdir():
            tree.copy(spot_of(path), path.name).mtime_ns = 1_600_000_000_000_000_000
    before = snapshot(edits.undo_directory)
    with Jvm(version, tmp_path) as jvm:
        with StoreLock(root):
            late = BareStore(jvm, root, settings)
            assert late.load()
            with pytest.raises(Py4JJavaError, match="Lock failed"):
                late.start()
        store = BareStore(jvm, root, settings)
        assert store.load()
        store.start()
        assert store.queue_offsets()[queue.parent.name, int(queue.name)] > (0, 0)
        with pytest.raises(StoreLocked) as error:
            StoreLock(root).__enter__()
        process = jvm.java("java.lang.ProcessHandle").current().pid()
        assert str(process) in error.value.reason
        assert ("running broker" in error.value.reason) is jvm.is_five  # 4.x leave `abort` empty
    assert before == snapshot(edits.undo_directory)
    with StoreLock(root) as lock, pytest.raises(PlanMismatch, match="a broker ran"):
        undo(lock)
