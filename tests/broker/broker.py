"""A real name server and a real broker on the loopback address.

`running_broker` is what most tests want: a broker of a version on a home directory, stopped
cleanly at the end unless it was crashed before.

    with running_broker("5.3.3", tmp_path, {"mappedFileSizeCommitLog": 262144}) as broker:
        broker.create_topic("orders", 4)
        with Producer(broker, "shop") as producer:
            producer.send(Outgoing("orders", b"body", keys=("ORDER-1",)))
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.broker.jvm import Jvm, java_text
from tests.broker.ports import LOOPBACK, free_ports
from tests.broker.stopping import stop

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

SMALL_GEOMETRY: Final[Mapping[str, object]] = {
    "mappedFileSizeCommitLog": 131072,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
    "maxMessageSize": 65536,
}
"""Files so short that a few hundred messages fill several of each kind."""

_ALWAYS: Final[Mapping[str, object]] = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": 0,
    "brokerIP1": LOOPBACK,
    "brokerIP2": LOOPBACK,
    "storePathRootDir": "store",
    # 4.9.3 would otherwise take the one below user.home.
    "storePathCommitLog": "store/commitlog",
    "autoCreateTopicEnable": True,
    # However full the disk and late the hour: nothing is deleted unless a test asks for it.
    "diskMaxUsedSpaceRatio": 99,
    "cleanFileForciblyEnable": False,
    "deleteWhen": "99",
    "warmMapedFileEnable": False,
    "osPageCacheBusyTimeOutMills": 60000,
    "waitTimeMillsInSendQueue": 60000,
    "messageDelayLevel": "1s 1s 1s 1s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 1h 2h",
}
_FIVE: Final[Mapping[str, object]] = {
    "timerWheelEnable": False,  # else 38.7 MB for each store
    "transactionMetricFlushInterval": 300,  # 5.5.0 waits its first one in a busy loop (observed)
}
_WAIT_SECONDS: Final = 600  # patience, on a busy machine


class NameServer:
    """A name server in a Java process."""

    def __init__(self, jvm: Jvm) -> None:
        config = jvm.rocketmq("remoting.netty.NettyServerConfig")()
        config.setListenPort(free_ports()[0])
        names = jvm.rocketmq("common.namesrv.NamesrvConfig")()
        names.setRocketmqHome(str(jvm.home))
        self._controller = jvm.rocketmq("namesrv.NamesrvController")(names, config)
        self._controller.initialize()
        self._controller.start()
        self.address = f"{LOOPBACK}:{config.getListenPort()}"

    def knows(self, topic: str) -> bool:
        """Whether clients that ask are told where the topic is."""
        routes = self._controller.getRouteInfoManager()
        return routes.pickupTopicRouteData(topic) is not None


class Broker:
    """A broker in a Java process.

    Args:
        jvm: where it runs; its home holds `broker.conf` and, unless a setting says otherwise,
            `store`.
        names: the name server that it registers with.
        settings: what `broker.conf` says beyond what every test broker needs.
    """

    def __init__(self, jvm: Jvm, names: NameServer, settings: Mapping[str, object]) -> None:
        self.jvm = jvm
        self.names = names
        port = free_ports()[2]
        self.address = f"{LOOPBACK}:{port}"
        self.settings: dict[str, object] = {
            **_ALWAYS,
            **(_FIVE if jvm.is_five else {}),
            **settings,
        }
        self.conf = jvm.home / "broker.conf"
        place: dict[str, object] = {
            "namesrvAddr": names.address,
            "listenPort": port,
            "haListenPort": port + 1,
        }
        if self.settings.get("enableDLegerCommitLog"):  # a group of one
            place["dLegerPeers"] = f"{settings['dLegerSelfId']}-{LOOPBACK}:{port - 1}"
        self.conf.write_text(conf_text({**self.settings, **place}), encoding="utf-8")
        startup = jvm.rocketmq("broker.BrokerStartup")
        self.controller: JavaObject = startup.createBrokerController(
            jvm.strings(["-c", str(self.conf)])
        )
        startup.start(self.controller)
        self._register()

    @property
    def store(self) -> JavaObject:
        """The broker's `MessageStore`."""
        return self.controller.getMessageStore()

    def create_topic(
        self, topic: str, queues: int, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic with as many queues to read as to write, and tell the name server.

        Args:
            topic: its name.
            queues: how many queues.
            attributes: of 5.x, as in `{"queue.type": "BatchCQ"}`.
        """
        config = self.jvm.rocketmq("common.TopicConfig")(topic, queues, queues, 6)
        if attributes:
            config.setAttributes({f"+{name}": value for name, value in attributes.items()})
        self.controller.getTopicConfigManager().updateTopicConfig(config)
        self._register()

    def wait_dispatched(self) -> None:
        """Wait until queues and index hold every message of the log."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while self.store.dispatchBehindBytes() > 0:
            _not_after(deadline, "dispatch")
            time.sleep(0.05)

    def rest(self) -> None:
        """Let a 5.x forget transactions whose ends are written.

        Once it has written some, it looks for more without a pause, and takes a processor
        (observed; TransactionalMessageServiceImpl#batchSendOpMessage, 5.5.0).
        """
        ends = self.controller.getTransactionalMessageService().getDeleteContext()
        for queue_id in list(ends.keySet()):
            if ends.get(queue_id).getContextQueue().isEmpty():
                ends.remove(queue_id)

    def stop(self) -> None:
        """Stop it in order: everything is flushed and `abort` goes."""
        stop(self.jvm, self.controller)

    def crash(self) -> None:
        """Kill it: `abort` and files that were made in advance stay."""
        self.jvm.halt()

    def _register(self) -> None:
        """Tell the name server of all topics until it knows them: clients ask it at once.

        A registration right after the start of a 5.x may come to nothing (observed). A slave tells
        no topics: it waits until it knows its master.
        """
        deadline = time.monotonic() + _WAIT_SECONDS
        is_slave = self.settings.get("brokerRole") == "SLAVE"
        while is_slave and not self.settings.get("enableControllerMode"):  # else nobody knows yet
            self.controller.registerBrokerAll(True, False, True)
            if self.controller.getSlaveSynchronize().getMasterAddr():
                return
            time.sleep(0.1)
            _not_after(deadline, "registration with a master")
        unknown = set(self.controller.getTopicConfigManager().getTopicConfigTable().keySet())
        while unknown:
            self.controller.registerBrokerAll(True, False, True)
            time.sleep(0.1)
            unknown = {topic for topic in unknown if not self.names.knows(topic)}
            _not_after(deadline, f"registration of {unknown}")


@contextmanager
def running_broker(
    version: str,
    home: Path,
    settings: Mapping[str, object] | None = None,
    *,
    ipv6: bool = False,
    options: Sequence[str] = (),
) -> Iterator[Broker]:
    """Run a name server and a broker in one Java process; stop the broker in order at the end.

    The name server, which keeps nothing, ends with the process: it would wait for seconds.

    Args:
        version: RocketMQ's version.
        home: a directory of this broker's own; the store is `home/store`.
        settings: what `broker.conf` says beyond what every test broker needs.
        ipv6: whether the process may use IPv6 addresses.
        options: of Java.
    """
    home.mkdir(parents=True, exist_ok=True)
    with Jvm(version, home, ipv6=ipv6, options=options) as jvm:
        names = NameServer(jvm)
        broker = Broker(jvm, names, settings or {})
        yield broker
        if jvm.is_running:
            broker.stop()


def conf_text(settings: Mapping[str, object]) -> str:
    """Return settings as the lines of a `broker.conf`."""
    return "".join(f"{name}={java_text(value)}\n" for name, value in settings.items())


def _not_after(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        reason = f"the broker did not finish: {what}"
        raise TimeoutError(reason)
