"""What rmqtool says of a group is what a real broker answers to `mqadmin consumerProgress`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.query.groups import ConsumerGroup, known_groups
from rmqtool.query.lookup import Lookup
from rmqtool.store.tree import open_store
from rmqtool.times import iso_time
from tests.broker.jvm import Jvm
from tests.broker.test_broker_json import controller_of
from tests.stores import fixture_store, manifest

if TYPE_CHECKING:
    from pathlib import Path

    from py4j.java_gateway import JavaObject

pytestmark = pytest.mark.broker

GET_CONSUME_STATS = 208
NAME = "rocketmq-5.5.0-traffic"


def test_consume_stats(tmp_path: Path) -> None:
    """Offsets, ends and differences of all queues with an offset, and the time before the lag."""
    (tmp_path / "jvm").mkdir()
    root = fixture_store(NAME, tmp_path)
    ours: dict[str, dict[tuple[str, int], tuple[int, int, int]]] = {}
    with Lookup(open_store(root)) as lookup:
        for name in known_groups(lookup.store):
            ours[name] = {
                (str(row["topic"]), int(str(row["queue_id"]))): (
                    int(str(row["committed_offset"])),
                    int(str(row["max_offset"])),
                    int(str(row["lag"])) + int(str(row["expired"])),
                )
                for row in ConsumerGroup(lookup, name).rows()
                if row["committed_offset"] is not None
            }
    with Jvm("5.5.0", tmp_path / "jvm") as jvm:
        controller = controller_of(jvm, root, dict(manifest(NAME)["settings"]))
        theirs = {name: stats(jvm, controller, name) for name in ours}
    checked = 0
    for name, queues in ours.items():
        for place, expected in queues.items():
            if place in theirs[name]:  # a broker leaves out topics that are not configured
                assert expected == theirs[name][place][:3], (name, place)
                checked += 1
    assert checked >= 10
    assert sum(diff for _, _, diff in ours["traffic-slow"].values()) == 1074
    with Lookup(open_store(root)) as lookup:  # the broker gives the time of the one before
        since = [str(row["lag_since"]) for row in ConsumerGroup(lookup, "traffic-slow").rows()]
        times = [iso_time(one[3]) or "" for _, one in sorted(theirs["traffic-slow"].items())]
    assert all(before <= after for before, after in zip(times, since, strict=True))


def stats(
    jvm: Jvm, controller: JavaObject, group: str
) -> dict[tuple[str, int], tuple[int, int, int, int]]:
    """Ask a broker: offset of the group, end of the queue, difference, time of the last one."""
    header = jvm.rocketmq("remoting.protocol.header.GetConsumeStatsRequestHeader")()
    header.setConsumerGroup(group)
    command = jvm.rocketmq("remoting.protocol.RemotingCommand")
    request = command.createRequestCommand(GET_CONSUME_STATS, header)
    request.makeCustomHeaderToNet()
    processor = jvm.rocketmq("broker.processor.AdminBrokerProcessor")(controller)
    body = processor.processRequest(None, request).getBody()
    serial = jvm.rocketmq("remoting.protocol.RemotingSerializable")
    kind = jvm.rocketmq("remoting.protocol.admin.ConsumeStats")().getClass()
    found = serial.decode(body, kind)
    return {
        (str(queue.getTopic()), int(queue.getQueueId())): (
            int(one.getConsumerOffset()),
            int(one.getBrokerOffset()),
            int(one.getBrokerOffset()) - int(one.getConsumerOffset()),
            int(one.getLastTimestamp()),
        )
        for queue, one in found.getOffsetTable().items()
    }
