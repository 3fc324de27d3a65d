"""What a release leaves in a store that older ones, or newer ones, do not.

Each row was found by comparing the sources of all releases, and is checked on stores that real
brokers wrote. Reading the files is in store/release.py.
"""

from __future__ import annotations

import re
from typing import Final

from rmqtool.broker.release import Version
from rmqtool.formats.config_names import (
    DELAYS_JSON,
    GROUPS_JSON,
    OFFSETS_JSON,
    ORDERS_JSON,
    TOPICS_JSON,
)

FIRST_OF_5: Final = Version(5, 0, 0)

# Files below the store root; no release before the one named writes them. Some come with a feature
# only. Source: StorePathConfigHelper, BrokerPathConfigHelper, BrokerController, 4.9.3 to 5.5.0.
FILES: Final = {
    "abort.bak": FIRST_OF_5,
    "timerwheel": FIRST_OF_5,
    "timerlog": FIRST_OF_5,
    "config/timercheck": FIRST_OF_5,
    "config/timermetrics": FIRST_OF_5,
    "batchconsumequeue": FIRST_OF_5,
    "epochFileCheckpoint": FIRST_OF_5,
    "compaction/position-checkpoint": Version(5, 1, 0),
    "brokerIdentity": Version(5, 1, 1),
    "config/lmqConsumerOffset.json": Version(4, 9, 3),
    "config/transactionMetrics": Version(5, 2, 0),
    "tiered_index_file": Version(5, 2, 0),
}

# Fields that are not 0. Source: StoreCheckpoint, 4.9.3 to 5.5.0.
CHECKPOINT_FIELDS: Final = {
    "master_flushed_offset": FIRST_OF_5,
    "confirm_phy_offset": Version(5, 1, 1),
    "logics_physical_offset": Version(5, 5, 0),
}
# Keys in JSON: which of them a bean has depends on the release alone. Source: DataVersion,
# TopicConfig, ConsumerOffsetManager, ConsumerOrderInfoManager, SubscriptionGroupConfig.
STATE_VERSION: Final = "stateVersion"
CONFIG_KEYS: Final = {
    "pullOffsetTable": Version(5, 5, 0),
    "orderInfoCount": Version(5, 5, 0),
    "orderedConsumptionLevel": Version(5, 4, 0),
    STATE_VERSION: FIRST_OF_5,
    "attributes": FIRST_OF_5,
}
# Keys that a later release no longer writes: 5.5.1 made the field transient.
CONFIG_KEYS_UNTIL: Final = {"pullOffsetTable": Version(5, 5, 1)}
CONFIG_FILES: Final = (TOPICS_JSON, GROUPS_JSON, OFFSETS_JSON, ORDERS_JSON)
# The first entry of a map with number keys: on the line of the brace, or below it.
FIRST_WITH_FASTJSON_2: Final = Version(5, 4, 0)
FASTJSON_1: Final = re.compile(rb'":\{-?\d+:')
FASTJSON_2: Final = re.compile(rb'":\{\s*\n\s*-?\d+:')
OFFSET_FILES: Final = (OFFSETS_JSON, DELAYS_JSON)

# The separator after the last property: written before 4.9.1, and again from 5.2.0 on.
# By MessageDecoder#messageProperties2String, 4.9.0 to 5.5.0.
FIRST_WITHOUT_SEPARATOR: Final = Version(4, 9, 1)
FIRST_WITH_SEPARATOR: Final = Version(5, 2, 0)
FIRST_WITH_LONG_TOPICS: Final = Version(5, 1, 0)  # MessageVersion#MESSAGE_VERSION_V2
