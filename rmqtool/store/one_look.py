"""What several rooms ask a store for, found out once while one look at it lasts.

A command that asks who checks, who plans and who predicts would list 100,000 directories five
times. Nothing is kept of a store that a broker writes to, nor past the end of the look.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

Answer = TypeVar("Answer")

_answers: ContextVar[dict[Hashable, object] | None] = ContextVar("answers", default=None)


@contextmanager
def one_look(*, is_still: bool) -> Iterator[None]:
    """Have what is asked meanwhile found out once.

    Args:
        is_still: whether nobody writes to the store, this command included.
    """
    token = _answers.set({} if is_still else None)
    try:
        yield
    finally:
        _answers.reset(token)


def once(question: Hashable, ask: Callable[[], Answer]) -> Answer:
    """Give the answer to a question, known already or asked now.

    Args:
        question: what is asked, of which place.
        ask: finds it out; what it raises is not kept.
    """
    answers = _answers.get()
    if answers is None:
        return ask()
    if question not in answers:
        answers[question] = ask()
    return cast("Answer", answers[question])
