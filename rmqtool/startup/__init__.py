"""What the broker of a version would do if it were started on a store now.

A model of the broker's own algorithms, one module a stage, in the order in which it runs them:

1. `load` lists the mapped files, or says why the broker refuses; `start` does the same for
   what a whole broker loads beside the message store.
2. `queues` and `batch_queues` find the end of each queue.
3. `indexes` takes or destroys the files of the key index.
4. `commitlog` recovers the log: where it begins, where it ends, what it cuts; `records` is the
   check of one record.
5. `dispatch` goes on once the broker runs.
6. `census` counts the messages in the log as it lies there, `already_lost` those that it has lost,
   `losses` says which of them consumers would not get any more, `outcomes` what becomes of queues
   and index.

`model` holds the store in between, `files` its files; `rules` is the table of what versions do
differently, `settings` what a broker.conf may change. Nothing is written.
"""

from rmqtool.startup.prediction import IndexFate, Loss, Prediction, TopicLoss
from rmqtool.startup.queue_outcomes import QueueOutcome
from rmqtool.startup.settings import Settings
from rmqtool.startup.start import predict

__all__ = ["IndexFate", "Loss", "Prediction", "QueueOutcome", "Settings", "TopicLoss", "predict"]
