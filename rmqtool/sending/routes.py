"""Where topics are, as a name server tells, and which queue a message goes to.

Source: TopicRouteData, RouteInfoManager#pickupTopicRouteData, PermName, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.errors import RemotingError, UsageError
from rmqtool.sending.delays import GET_BROKER_CONFIG, conf_of
from rmqtool.sending.options import address_of, shown
from rmqtool.sending.remoting import Connection, brief, json_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.sending.access import Access
    from rmqtool.sending.options import SendOptions

GET_ROUTEINFO_BY_TOPIC: Final = 105
GET_BROKER_CLUSTER_INFO: Final = 106
SUCCESS: Final = 0
NOT_SUPPORTED: Final = 3
TOPIC_NOT_EXIST: Final = 17
_PERM_WRITE: Final = 2
_MASTER: Final = "0"
_MOST_QUEUES: Final = 1 << 20  # of a broker
_MOST_BROKERS: Final = 4096


class Master(NamedTuple):
    """A broker that takes messages of a topic."""

    name: str  # of the broker
    address: tuple[str, int]  # host and port
    queues: int  # how many it has; they are numbered from 0 on


class TargetQueue(NamedTuple):
    """Where a message goes."""

    broker: Master  # its master
    queue_id: int  # of the topic, there


class Route(NamedTuple):
    """The brokers that take messages of a topic."""

    topic: str  # its name
    masters: tuple[Master, ...]  # by name

    def queue_of(self, queue_id: int | None, turn: int) -> TargetQueue:
        """Choose the queue of a message.

        Messages of one queue go to one queue, so that their order stays: to the queue with the same
        number, of a broker that follows from the number. Where no broker has that number, all
        queues of the topic share.

        Args:
            queue_id: that the message had.
            turn: how many messages of the topic without a queue came before.
        """
        if queue_id is not None and queue_id >= 0:
            having = [master for master in self.masters if queue_id < master.queues]
            if having:
                return TargetQueue(having[queue_id % len(having)], queue_id)
        number = (turn if queue_id is None else queue_id) % sum(
            master.queues for master in self.masters
        )
        for master in self.masters:
            if number < master.queues:
                return TargetQueue(master, number)
            number -= master.queues
        raise AssertionError  # the numbers are those of the queues


def routes_of(options: SendOptions, access: Access, topics: Mapping[str, int]) -> dict[str, Route]:
    """Ask for the routes of topics; the first name server that answers counts.

    Args:
        options: name servers, and how long an answer may take.
        access: how requests are made.
        topics: names, and how many queues each needs.

    Raises:
        RemotingError: no name server answers, or not as one does.
        UsageError: topics are not in the cluster, or nobody may write to one.
    """
    errors = []
    for address in options.name_servers:
        try:
            with Connection(address, options.timeout, access) as connection:
                routes = {topic: _route(connection, topic) for topic in topics}
                missing = {topic: topics[topic] for topic, route in routes.items() if route is None}
                if missing:
                    raise _missing(connection, options, missing)
                return {topic: route for topic, route in routes.items() if route is not None}
        except RemotingError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    reason = "; ".join(map(str, errors))
    raise RemotingError(address="no name server answers", reason=reason)


def _route(connection: Connection, topic: str) -> Route | None:
    """Ask for the route of a topic; None where the cluster does not have it."""
    answer = connection.ask(GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if answer.code == TOPIC_NOT_EXIST:
        return None
    where = shown(*connection.address)
    if answer.code == NOT_SUPPORTED:
        raise RemotingError(address=where, reason=_of_no_name_server(connection))
    if answer.code != SUCCESS:
        raise RemotingError(address=where, reason=f"answers {answer.code}: {brief(answer.remark)}")
    masters = _masters(json_of(answer.body))
    if masters is None:
        raise RemotingError(address=where, reason=f"answers no route of topic {topic!r}")
    if not masters:
        raise UsageError(
            option="--name-server",
            reason=f"no master broker of the cluster may be written to for topic {topic!r}",
            step="mqadmin topicRoute: brokers of the topic, and their permissions",
        )
    return Route(topic, masters)


def _missing(
    connection: Connection, options: SendOptions, missing: Mapping[str, int]
) -> UsageError:
    """Name all topics that a cluster lacks, with the command that makes each."""
    group = options.to_group
    if group is not None:
        return UsageError(
            option="--to-group",
            reason=f"the cluster does not know the consumer group {group!r}",
            step="start a consumer of the group once: its broker then makes the retry topic",
        )
    names = ", ".join(map(repr, missing))
    where = f"-n {quote(options.cluster)} -c {quote(_cluster_name(connection) or 'CLUSTER')}"
    lines = [
        f"mqadmin updateTopic {where} -t {quote(topic)} -r {queues} -w {queues}"
        for topic, queues in missing.items()
    ]
    if options.to_topic is None:
        lines.append("--to-topic with a topic that it has")
    return UsageError(
        option="--name-server",
        reason=f"the cluster has no {'topic' if len(missing) == 1 else 'topics'} {names}",
        step="\ntry: ".join(lines),
    )


def _cluster_name(connection: Connection) -> str:
    """Ask for the name of the cluster; empty where there is not exactly one."""
    with suppress(RemotingError):
        info = json_of(connection.ask(GET_BROKER_CLUSTER_INFO, {}).body)
        clusters = info.get("clusterAddrTable") if isinstance(info, dict) else None
        if isinstance(clusters, dict) and len(clusters) == 1:
            return brief(str(next(iter(clusters))))
    return ""


def _of_no_name_server(connection: Connection) -> str:
    """Say what a server is that knows no routes: a broker names its name servers."""
    with suppress(RemotingError):
        answer = connection.ask(GET_BROKER_CONFIG, {})
        conf = conf_of(answer.body)
        if answer.code == SUCCESS and "brokerName" in conf:
            servers = conf.get("namesrvAddr", "")
            other = f"; its name servers: {brief(servers)}" if servers else ""
            return f"is broker {brief(conf['brokerName'])!r}, not a name server{other}"
    return "is not a name server: it does not know routes of topics"


def _masters(info: object) -> tuple[Master, ...] | None:
    """Read a route; None where it is not one."""
    try:
        return tuple(sorted(_each_master(info)))
    except (TypeError, KeyError, ValueError, AttributeError):
        return None


def _each_master(info: Any) -> list[Master]:  # noqa: ANN401 - what a peer answered
    addresses = {
        str(broker["brokerName"]): broker["brokerAddrs"].get(_MASTER)
        for broker in info["brokerDatas"]
    }
    masters: list[Master] = []
    for queue in info["queueDatas"]:
        count, name = int(queue["writeQueueNums"]), str(queue["brokerName"])
        text = addresses.get(name)
        if not int(queue["perm"]) & _PERM_WRITE or count <= 0 or text is None:
            continue
        address = address_of(str(text))
        if address is None or count > _MOST_QUEUES or len(masters) >= _MOST_BROKERS:
            raise ValueError
        masters.append(Master(name, address, count))
    return masters
