"""What may come next on a command line: commands, options, and names out of the store named on it.

A shell asks with `_RMQTOOL_COMPLETE` set to its name, and hands on the words up to the cursor as
arguments; the scripts are in completion/. What is answered, one a line: the word, a tab, what it
is. No answer at all leaves the shell to complete file names.

A store may be damaged, and its topics may have been named by strangers: nothing here fails because
of content, nothing is written, and what holds a control character is not offered. The scripts
take an answer as a word, never as something to evaluate.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Final

from rmqtool.cli.app import CONTENTS, command
from rmqtool.cli.completing_values import VALUES, Line, codes
from rmqtool.cli.main import COMPLETES
from rmqtool.errors import RmqtoolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typer.core import TyperCommand

BASH: Final = "bash"  # the one that cuts words at '='
FISH: Final = "fish"  # the one that hands on words without their quotes
ROOT_OPTIONS: Final = (("--help", "what there is"), ("--version", "versions of all that reads"))
MOST: Final = 2000  # more answers than that help nobody
LISTED: Final = frozenset({"only", "ignore"})  # options that take several words with commas


def answer(words: Sequence[str]) -> int:
    """Print what may stand where the last word begins; the exit code is always 0.

    Args:
        words: behind the program's name, up to the cursor; the last one is what has been typed.
    """
    shell = os.environ.get(COMPLETES, "")
    given, cut = _as_meant(words, shell)
    try:
        found = list(_offers(given))
    except (RmqtoolError, OSError):
        found = []  # no store there, or one that cannot be listed
    typed = given[-1] if given else ""
    lines = []
    for word, meaning in found[:MOST]:
        if word.startswith(typed) and word.isprintable():
            lines.append(f"{word[cut:]}\t{' '.join(meaning.split())}\n")
    sys.stdout.write("".join(lines))
    return 0


def _as_meant(words: Sequence[str], shell: str) -> tuple[list[str], int]:
    """Give the words as the command would see them, and how much of the last one the shell keeps.

    Bash cuts `--topic=tr` into three words; bash and zsh leave quotes and tildes as they were
    typed.
    """
    if shell != BASH:
        return [word if shell == FISH else _unquoted(word) for word in words], 0
    joined: list[str] = []
    cut = 0
    for word in words:
        follows = bool(joined) and joined[-1].startswith("--")
        if word == "=" and follows:
            joined[-1] += "="
            cut = len(joined[-1])
        elif follows and joined[-1].endswith("="):
            joined[-1] += word
        else:
            joined.append(_unquoted(word))
            cut = 0
    return joined, cut


def _unquoted(word: str) -> str:
    try:
        (plain,) = shlex.split(os.path.expanduser(word))  # noqa: PTH111 - words, not paths
    except ValueError:  # a quote that is still open, or nothing at all
        return word.lstrip("\"'")
    return plain


def _offers(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give everything that may stand at the last of these words."""
    typed = words[-1] if words else ""
    name = next((word for word in words[:-1] if not word.startswith("-")), None)
    if name is None:
        yield from ROOT_OPTIONS if typed.startswith("-") else _commands()
    elif name in {entry.name for entry in CONTENTS}:
        asked = _Asked(command(name), list(words[list(words).index(name) + 1 : -1]))
        yield from asked.offers(typed)


def _commands() -> Iterator[tuple[str, str]]:
    for entry in CONTENTS:
        yield entry.name, entry.summary


class _Asked:
    """A command line up to the word in question, taken apart as far as it goes.

    Attributes:
        values: of options, by the name of the parameter.
        places: what is no option and no value of one.
    """

    def __init__(self, built: TyperCommand, words: list[str]) -> None:
        self._built = built
        self._options = {
            spelt: param
            for param in built.params
            if param.param_type_name == "option"
            for spelt in (*param.opts, *param.secondary_opts)
        }
        self.values: dict[str, list[str]] = {}
        self.places: list[str] = []
        self._open: str | None = None
        for word in words:
            self._take(word)

    def _take(self, word: str) -> None:
        spelt, separator, value = word.partition("=")
        if self._open is not None:
            self.values.setdefault(self._open, []).append(word)
            self._open = None
        elif spelt in self._options:
            param = self._options[spelt]
            if separator:
                self.values.setdefault(str(param.name), []).append(value)
            elif not getattr(param, "is_flag", False):
                self._open = str(param.name)
        elif not word.startswith("-") or word == "-":
            self.places.append(word)

    def offers(self, typed: str) -> Iterator[tuple[str, str]]:
        """Give what may stand next: a value, an option, or what the command works on."""
        spelt, separator, value = typed.partition("=")
        if self._open is not None:
            yield from self._values(self._open, typed)
        elif separator and spelt in self._options:
            for word, meaning in self._values(str(self._options[spelt].name), value):
                yield f"{spelt}={word}", meaning
        elif typed.startswith("-"):
            for one, param in self._options.items():
                yield one, getattr(param, "help", None) or ""
        elif self._built.name == "help":
            yield from _help_topics()

    def _values(self, name: str, typed: str) -> Iterator[tuple[str, str]]:
        """Give the values of an option."""
        ask = VALUES.get(name)
        if ask is None:
            yield from self._choices(name)
            return
        before, comma, _ = typed.rpartition(",") if name in LISTED else ("", "", "")
        for word, meaning in ask(Line(str(self._built.name), self.places, self.values)):
            yield f"{before}{comma}{word}", meaning

    def _choices(self, name: str) -> Iterator[tuple[str, str]]:
        """Give the words of an option that takes one of a few."""
        for param in self._built.params:
            if param.name == name:
                choices = getattr(getattr(param, "type_descriptor", None), "choices", None) or ()
                yield from ((str(choice.value), "") for choice in choices)
                if "|" in (metavar := param.metavar or "") and metavar.islower():
                    yield from ((word, "") for word in metavar.split("|"))


def _help_topics() -> Iterator[tuple[str, str]]:
    from rmqtool.cli.manual import FINDINGS, FORMATS, SPARK
    from rmqtool.formats.registry import LAYOUTS

    yield from _commands()
    yield FORMATS, "every byte of every file"
    yield FINDINGS, "every finding code"
    yield SPARK, "stores as Spark tables, bulk work on a cluster"
    yield from codes()
    yield from ((layout.name, layout.doc) for layout in LAYOUTS.values())
