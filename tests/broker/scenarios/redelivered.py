"""Messages that brokers store again: refused transactions, delays of another configuration."""

from __future__ import annotations

from typing import Final

from tests.broker.broker import SMALL_GEOMETRY, Broker
from tests.broker.client import wait_until
from tests.broker.consumer import PushConsumer
from tests.broker.message import Outgoing
from tests.broker.producer import Producer, TransactionProducer
from tests.broker.scenarios.stage import Scenario, Stage, order, text

_TRANSACTIONS: Final = "again-transaction"
_ORDERS: Final = "again-orders"
_DELAYED: Final = "again-delayed"
_OTHER_LEVELS: Final = "2s 3s 7s"  # of the same broker, before it was configured anew
_SECOND_SENDER: Final = 25  # of so many messages one comes from another connection


def play(stage: Stage) -> None:
    """Let consumers refuse committed transactions, change the delays, send from two addresses."""
    for topic, queues in ((_TRANSACTIONS, 1), (_ORDERS, 1), (_DELAYED, 1)):
        stage.broker.create_topic(topic, queues)
    usual = str(stage.broker.settings["messageDelayLevel"])
    _set_levels(stage.broker, _OTHER_LEVELS)
    _delays(stage, 0)
    _set_levels(stage.broker, usual)
    _delays(stage, 1)
    _transactions(stage)
    _orders(stage)
    stage.broker.wait_dispatched()


def _set_levels(broker: Broker, levels: str) -> None:
    """Configure the delays, as a restart with another broker.conf does."""
    store = broker.controller.getMessageStore()
    store.getMessageStoreConfig().setMessageDelayLevel(levels)
    five = broker.jvm.is_five
    holder = broker.controller if five else store
    holder.getScheduleMessageService().parseDelayLevel()
    if five:
        store.parseDelayLevel()


def _delays(stage: Stage, round_number: int) -> None:
    with Producer(stage.broker, f"again-delays-{round_number}") as producer:
        for number, level in enumerate((1, 1, 2, 3, 3, 3)):
            body = text(f"delay {round_number} {number}", 60)
            stage.record(producer.send(Outgoing(_DELAYED, body, "late", delay_level=level), 0))
    with PushConsumer(stage.broker, "again-late", _DELAYED) as late:
        late.wait(6)


def _transactions(stage: Stage) -> None:
    """Commit messages that a group refuses until they are dead letters."""
    with TransactionProducer(stage.broker, "again-producer") as producer:
        for number in range(6):
            outgoing = Outgoing(
                _TRANSACTIONS, text(f"transaction {number}", 80), "committed", (f"X-{number}",)
            )
            stage.record(producer.send(outgoing, "committed"))
    group = "again-failing"
    with PushConsumer(
        stage.broker, group, _TRANSACTIONS, refuse=lambda message: "committed" == message.tags
    ) as consumer:
        consumer.wait(6 * 3)  # at first, and twice again
        wait_until(lambda: _dead_letters(stage.broker, group) == 6, "dead letters")


def _dead_letters(broker: Broker, group: str) -> int:
    store = broker.controller.getMessageStore()
    return int(store.getMaxOffsetInQueue(f"%DLQ%{group}", 0))


def _orders(stage: Stage) -> None:
    """Send from two producers of one process: one client by its IDs, two addresses."""
    with Producer(stage.broker, "again-one") as one, Producer(stage.broker, "again-two") as two:
        for number in range(150):
            sender = two if number % _SECOND_SENDER == _SECOND_SENDER - 1 else one
            stage.record(sender.send(order(_ORDERS, number), 0))


SCENARIO: Final = Scenario(
    name="redelivered",
    summary="refused transactions, two configurations of delays, one client at two addresses",
    play=play,
    settings={
        **SMALL_GEOMETRY,
        "enableConsumeQueueExt": True,
        "enableCalcFilterBitMap": True,
        "enablePropertyFilter": True,
        "mappedFileSizeConsumeQueueExt": 3000,
    },
)
