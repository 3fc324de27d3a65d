"""What the structures of one input may cost, all of them together.

A stranger chooses the numbers in headers, lists and maps, and how often each comes. What is bounded
one by one is not bounded in sum. So whoever reads them pays for each thing from one budget. A step
is about 100 ns of a processor, or 20 bytes of memory, in the command that then uses the thing.
"""

from __future__ import annotations

from typing import Final

FREE_STEPS: Final = 20_000_000  # of any input, however small
STEPS_A_BYTE: Final = 20  # of the input: whoever sends more may ask for more


class OverBudget(ValueError):
    """The structures of an input cost more than it may ask for; the text says what to do."""


class ParseBudget:
    """What is left for the structures of one input.

    Args:
        what: the structures, as a sentence begins.
        input_bytes: of the input, as it is on the disk.
        free: steps that any input has.
    """

    def __init__(self, what: str, input_bytes: int = 0, free: int = FREE_STEPS) -> None:
        self._what = what
        self._paid: set[str] = set()
        self._left = self._all = free + STEPS_A_BYTE * input_bytes

    def spend(self, steps: int) -> None:
        """Pay for the next thing. Raises OverBudget: there is not so much left."""
        self._left -= steps
        if self._left < 0:
            message = f"{self._what} cost more than an input of this size may"
            raise OverBudget(message)

    def spend_once(self, name: str, steps: int) -> None:
        """Pay for what commands read again and again, the first time. Raises OverBudget."""
        if name not in self._paid:
            self.spend(steps)
            self._paid.add(name)

    @property
    def spent(self) -> int:
        """Steps that were paid for."""
        return self._all - self._left
