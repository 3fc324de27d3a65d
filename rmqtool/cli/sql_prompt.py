"""The prompt of `sql`: lines that can be edited, a history, names that are completed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqtool.cli.signals import goes_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROMPT: Final = "sql> "
MORE: Final = "...> "
LEAVE: Final = frozenset({"exit", "quit", "exit;", "quit;"})
HISTORY: Final = "sql-history.txt"
MOST_KEPT: Final = 1000  # questions
WORDS: Final = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "DISTINCT", "JOIN"),
    *("WITH", "AND", "OR", "NOT", "NULL", "IS", "IN", "AS", "ON", "BETWEEN", "LIKE", "DESC"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "DESCRIBE", "EXPLAIN", "TABLE", "SHOW"),
)
BREAKS: Final = " \t\n()=<>,;'\"+-*/"  # what stands between words


def typed_questions() -> Iterator[str]:
    """Yield what is typed, question by question; Ctrl-C drops what was typed of one."""
    import readline  # `input` uses it

    readline.set_completer(Completer(known_names()))
    readline.set_completer_delims(BREAKS)
    readline.parse_and_bind("tab: complete")
    readline.set_auto_history(False)
    questions = remembered_questions()
    for question in questions:
        readline.add_history(question)
    lines: list[str] = []
    while True:
        try:
            line = input(MORE if lines else PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            goes_on()
            print()  # noqa: T201 - the cursor stands after what was typed
            lines = []
            continue
        if not lines and line.strip().lower() in LEAVE:
            return
        lines += [line] if line.strip() else []
        if line.rstrip().endswith(";"):
            question = " ".join(map(str.strip, lines))
            if not questions or questions[-1] != question:
                readline.add_history(question)
                questions.append(question)
                _remember(questions)
            yield "\n".join(lines)
            lines = []


class Completer:
    """Completes the word before the cursor, in whatever case it is typed.

    Args:
        names: that there are.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted({*names, *WORDS}, key=str.lower)

    def __call__(self, text: str, number: int) -> str | None:
        """Give one of the words that a text may become; None when there are no more."""
        begun = [name for name in self._names if name.lower().startswith(text.lower())]
        return begun[number] if text and number < len(begun) else None


def known_names() -> set[str]:
    """Give the names of tables, views, their columns, and functions of both engines."""
    from rmqtool.reads.options import TableName
    from rmqtool.reads.tables import SCHEMAS
    from rmqtool.reads.views import VIEWS
    from rmqtool.sql.dialect import MACROS

    columns = {name for table in TableName for name in SCHEMAS[table].names}
    functions = {signature.partition("(")[0] + "(" for signature in MACROS}
    return {*map(str, TableName), *VIEWS, *columns, *functions}


def remembered_questions() -> list[str]:
    """Give the questions of earlier conversations, the oldest first."""
    from rmqtool.writing.user_files import kept_text

    return kept_text(HISTORY).splitlines()[-MOST_KEPT:]


def _remember(questions: list[str]) -> None:
    """Keep questions for later conversations; without a home, for this one alone."""
    from rmqtool.writing.user_files import keep_text

    with suppress(OSError):
        keep_text(HISTORY, "".join(f"{question}\n" for question in questions[-MOST_KEPT:]))
