"""Count what a store has lost so far, by what a prediction finds in log and queues as they are.

See `already_lost` for how it is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import RmqtoolError
from rmqtool.ledger.account import LossAccount, may_have_lost
from rmqtool.startup.losses import LogReading
from rmqtool.startup.start import predict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.findings.catalogue import Code, Severity
    from rmqtool.startup.prediction import Prediction
    from rmqtool.store.tree import Store


def counted_by(prediction: Prediction) -> LossAccount | None:
    """Take the account from a prediction; None where that did not look at the whole log."""
    if prediction.files_unread:
        return None
    return LossAccount(prediction.missing.messages, prediction.lost_numbers)


def account_of(
    store: Store, codes: Iterable[tuple[Code, Severity]], version: str | None = None
) -> LossAccount | None:
    """Count what a store has lost; None where that cannot be counted.

    Args:
        store: a whole store.
        codes: what a validation of it found.
        version: of the broker; None is the release that wrote the store.
    """
    return lost_of(store, version) if may_have_lost(codes) else LossAccount()


def lost_of(store: Store, version: str | None = None) -> LossAccount | None:
    """Count what a store has lost, whatever a validation finds; see `account_of`."""
    try:
        return counted_by(predict(store, version, reads=LogReading.ALL))
    except RmqtoolError:
        return None
