"""The table of named damages: each with the codes that a validation must find, and no others.

A damage is done to a copy of a fixture that has what it needs (`Damage.applies_to`); one that
finds nothing to damage there raises `NotApplicable`.
"""

from __future__ import annotations

from typing import Final

from tests.damage_commitlog import COMMITLOG
from tests.damage_index import INDEX
from tests.damage_queues import QUEUES
from tests.damage_state import STATE
from tests.inflict import Damage, NotApplicable

__all__ = ["DAMAGES", "Damage", "NotApplicable"]

DAMAGES: Final[dict[str, Damage]] = {
    damage.name: damage for damage in (*COMMITLOG, *QUEUES, *INDEX, *STATE)
}
