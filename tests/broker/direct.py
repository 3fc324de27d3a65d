"""Messages put into a broker's store without a client between.

What no client of the version at hand can send, a broker may hold nevertheless: older clients,
other languages, other networks.
"""

from __future__ import annotations

import time
from typing import Final

from tests.broker.broker import Broker
from tests.broker.message import UNIQUE_KEY, Outgoing, Sent, answered, client_properties
from tests.broker.ports import LOOPBACK

_PORT: Final = 10911


def put_direct(
    broker: Broker,
    outgoing: Outgoing,
    queue_id: int = 0,
    *,
    born_host: str = LOOPBACK,
    store_host: str = LOOPBACK,
    reconsume_times: int = 0,
) -> Sent:
    """Put one message into the store of a running broker, and return it with the answer.

    Args:
        broker: whose store.
        outgoing: the message; it gets a unique key as from a client.
        queue_id: queue.
        born_host: IPv4 or IPv6 address of the pretended client.
        store_host: IPv4 or IPv6 address of the pretended broker.
        reconsume_times: how often it was retried.

    Raises:
        AssertionError: the store refuses it.
    """
    jvm = broker.jvm
    address = jvm.java("java.net.InetSocketAddress")
    package = "common.message" if jvm.is_five else "store"
    message = outgoing.java(jvm)
    jvm.rocketmq("common.message.MessageClientIDSetter").setUniqID(message)
    inner = jvm.rocketmq(f"{package}.MessageExtBrokerInner")()
    inner.setTopic(outgoing.topic)
    inner.setQueueId(queue_id)
    inner.setBody(outgoing.body)
    inner.setFlag(outgoing.flag)
    jvm.rocketmq("common.message.MessageAccessor").setProperties(inner, message.getProperties())
    decoder = jvm.rocketmq("common.message.MessageDecoder")
    inner.setPropertiesString(decoder.messageProperties2String(inner.getProperties()))
    inner.setBornTimestamp(int(time.time() * 1000))
    inner.setBornHost(address(born_host, _PORT + 1))
    inner.setStoreHost(address(store_host, _PORT))
    inner.setReconsumeTimes(reconsume_times)
    properties = client_properties(jvm, message)
    result = broker.store.putMessage(inner)
    status = str(result.getPutMessageStatus())
    assert status == "PUT_OK", status
    appended = result.getAppendMessageResult()
    answer = (queue_id, int(appended.getLogicsOffset()), str(appended.getMsgId()), "SEND_OK")
    assert properties[UNIQUE_KEY]
    return answered(outgoing, properties, answer, "direct")
