"""Look up messages: any ID, key, offset or time to the record, verified and explained.

1. `requests` says what was asked; a pasted string is recognised there.
2. `lookup.Lookup` answers: offsets are read, the index (`index`) and the queues (`consume_queue`)
   propose records, `match` decides on the record alone, `log` reads it.
3. `search` and `scan` search the log itself where the index cannot be asked or believed; `window`
   bounds that by the time in a unique key.
4. `time`, `queue_times` and `broker_time` find times; `trace` follows a message across topics;
   `batch` answers many requests in one pass.
5. `rows` makes rows of answers, `explain` holds the way to them.

    with Lookup(open_store("/data/store")) as lookup:
        answer = lookup.find(ByKey("order-17"))
        for hit in answer.hits:
            print(message_row(hit.record))

Nothing here loads numpy, numba or pyarrow unless the log itself has to be searched by kernels.
"""

from rmqtool.query.answer import Answer, Hit
from rmqtool.query.lookup import Lookup
from rmqtool.query.requests import (
    ById,
    ByKey,
    ByOffset,
    ByQueueOffset,
    ByText,
    ByTime,
    ByTransaction,
    Request,
    parse_line,
    parse_lines,
)
from rmqtool.query.rows import message_row
from rmqtool.ranges import Boundary

__all__ = [
    "Answer",
    "Boundary",
    "ById",
    "ByKey",
    "ByOffset",
    "ByQueueOffset",
    "ByText",
    "ByTime",
    "ByTransaction",
    "Hit",
    "Lookup",
    "Request",
    "message_row",
    "parse_line",
    "parse_lines",
]
