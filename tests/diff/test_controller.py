"""Real brokers under a controller: the epochs say who was master from which offset on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.diff.report import verdict
from tests.broker.broker import SMALL_GEOMETRY, Broker, NameServer
from tests.broker.client import wait_until
from tests.broker.jvm import Jvm
from tests.broker.ports import LOOPBACK, free_ports
from tests.broker.producer import Producer
from tests.diff.conftest import Pair
from tests.diff.test_master_slave import QUEUES, TOPIC, counted, end_of, send, wait_copied

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

COPIED, ALONE, PROMOTED = 300, 80, 120  # messages
MODE: Final = {
    **SMALL_GEOMETRY,
    "enableControllerMode": True,
    "brokerRole": "SLAVE",  # until the controller says otherwise
    "haSendHeartbeatInterval": 200,
    "syncBrokerMetadataPeriod": 500,
    "checkSyncStateSetPeriod": 500,
    "controllerHeartBeatTimeoutMills": 3000,
    "totalReplicas": 2,
}


@dataclass
class Controller:
    """A name server and a controller in one Java process, and brokers that obey it."""

    jvm: Jvm
    names: NameServer
    config: JavaObject
    address: str

    @classmethod
    def start(cls, jvm: Jvm) -> Controller:
        """Start both; the controller is a group of one."""
        port = free_ports()[0]
        config = jvm.rocketmq("common.ControllerConfig")()
        config.setControllerDLegerGroup("controllers")
        config.setControllerDLegerPeers(f"n0-{LOOPBACK}:{port}")
        config.setControllerDLegerSelfId("n0")
        config.setMappedFileSize(1 << 20)
        config.setControllerStorePath(str(jvm.home / "controller"))
        config.setScanNotActiveBrokerInterval(500)
        server = jvm.rocketmq("remoting.netty.NettyServerConfig")()
        client = jvm.rocketmq("remoting.netty.NettyClientConfig")()
        manager = jvm.rocketmq("controller.ControllerManager")(config, server, client)
        assert manager.initialize()
        manager.start()
        return cls(jvm, NameServer(jvm), config, f"{LOOPBACK}:{port}")

    @contextmanager
    def broker(self, home: Path) -> Iterator[Broker]:
        """Run a broker; it is killed at the end."""
        home.mkdir(parents=True, exist_ok=True)
        with Jvm(self.jvm.version, home) as jvm:
            yield Broker(jvm, self.names, {**MODE, "controllerAddr": self.address})


def wait_master(broker: Broker) -> None:
    """Wait until a broker is the master."""
    manager = broker.controller.getReplicasManager()
    wait_until(lambda: bool(manager.isMasterState()), "the election")


@pytest.mark.broker
@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_epochs(version: str, tmp_path: Path) -> None:
    """A slave that lacks messages is elected; the old master comes back, and its log is cut."""
    stores = Pair(tmp_path / "a/store", tmp_path / "b/store")
    with Jvm(version, tmp_path / "controller") as jvm:
        controller = Controller.start(jvm)
        with controller.broker(stores.a.parent) as first:
            wait_master(first)
            first.create_topic(TOPIC, QUEUES)
            with Producer(first, "shop") as producer:
                sent = list(send(producer, COPIED, "copied"))
                with controller.broker(stores.b.parent) as copy:
                    wait_copied(first, copy)
                    end = end_of(copy)
                sent += send(producer, ALONE, "alone")
            first.wait_dispatched()
            first.stop()
        compared = stores.compare()
        assert (compared.parts_at, compared.log.first, compared.state.epochs) == (end, None, {})
        assert counted(compared) == (ALONE, 0)
        controller.config.setEnableElectUncleanMaster(True)
        with controller.broker(stores.b.parent) as second:
            wait_master(second)
            with Producer(second, "shop") as producer:
                sent += send(producer, PROMOTED, "promoted")
            compared = stores.compare()
            assert (compared.parts_at, compared.log.first, compared.log.goes_on) == (
                end,
                end,
                False,
            )
            assert counted(compared) == (ALONE, PROMOTED)
            assert list(compared.state.epochs.values()) == [(None, end)]
            assert "; 1 epoch differs; " in verdict(compared)
            with controller.broker(stores.a.parent) as again:
                wait_copied(second, again)
            compared = stores.compare()
    assert compared.log.is_same
    assert compared.state.epochs == {}
    assert {one.status for one in sent} == {"SEND_OK"}
