"""Names of the files with a broker's configuration and progress, and of the tables in them.

Source: BrokerPathConfigHelper, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import Final

TOPICS_JSON: Final = "topics.json"
GROUPS_JSON: Final = "subscriptionGroup.json"
OFFSETS_JSON: Final = "consumerOffset.json"
LIGHT_OFFSETS_JSON: Final = "lmqConsumerOffset.json"  # with enableLmq, instead of OFFSETS_JSON
DELAYS_JSON: Final = "delayOffset.json"
FILTERS_JSON: Final = "consumerFilter.json"
ORDERS_JSON: Final = "consumerOrderInfo.json"
MAPPINGS_JSON: Final = "topicQueueMapping.json"
MODES_JSON: Final = "messageRequestMode.json"

# In each of these files the object that has an entry for each topic, group or the like.
TOPIC_TABLE: Final = "topicConfigTable"
GROUP_TABLE: Final = "subscriptionGroupTable"
OFFSET_TABLE: Final = "offsetTable"
FILTER_TABLE: Final = "filterDataByTopic"
