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

from rmqtool.cli.commands import HELP, NAMES, SUMMARIES, VERSION, load
from rmqtool.cli.declaration import Command, Kind, Line, Parameter, parameters
from rmqtool.errors import RmqtoolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.cli.declaration import Word

BASH: Final = "bash"  # the one that cuts words at '='
FISH: Final = "fish"  # the one that hands on words without their quotes
MOST: Final = 2000  # more answers than that help nobody


def answer(words: Sequence[str], shell: str) -> int:
    """Print what may stand where the last word begins; the exit code is always 0.

    Args:
        words: after the program's name, up to the cursor; the last one is what has been typed.
        shell: which one asks.
    """
    given, cut = _as_meant(words, shell)
    try:
        offered = list(_offers(given))
    except (RmqtoolError, OSError):
        offered = []  # no store there, or one that cannot be listed
    typed = given[-1] if given else ""
    lines = []
    for word, meaning in offered[:MOST]:
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


def _offers(words: Sequence[str]) -> Iterator[Word]:
    """Give everything that may stand at the last of these words."""
    typed = words[-1] if words else ""
    name = next((word for word in words[:-1] if not word.startswith("-")), None)
    if name is None:
        yield from _spelt((VERSION, HELP)) if typed.startswith("-") else SUMMARIES.items()
    elif name in NAMES:
        asked = _Asked(load(name), list(words[list(words).index(name) + 1 : -1]))
        yield from asked.offers(typed)


def _spelt(options: Iterable[Parameter]) -> Iterator[Word]:
    """Give all ways to write some options, each once."""
    for fromkey in dict.fromkeys(options):
        yield from ((spelt, fromkey.declaration.help) for spelt in fromkey.spellings)


class _Asked:
    """A command line up to the word in question, taken apart as far as it goes.

    Attributes:
        values: of options, by the name of the field.
        places: what is no option and no value of one.
    """

    def __init__(self, command: type[Command], words: list[str]) -> None:
        self._arguments = [parameter for parameter in parameters(command) if parameter.is_argument]
        known = (*parameters(command), HELP)
        self._options = {spelt: parameter for parameter in known for spelt in parameter.spellings}
        self.values: dict[str, list[str]] = {}
        self.places: list[str] = []
        self._open: Parameter | None = None
        for word in words:
            self._take(word)

    def _take(self, word: str) -> None:
        spelt, separator, value = word.partition("=")
        if self._open is not None:
            self.values.setdefault(self._open.name, []).append(word)
            self._open = None
        elif spelt in self._options:
            option = self._options[spelt]
            if separator:
                self.values.setdefault(option.name, []).append(value)
            elif option.kind is not Kind.FLAG:
                self._open = option
        elif not word.startswith("-") or word == "-":
            self.places.append(word)

    def offers(self, typed: str) -> Iterator[Word]:
        """Give what may stand next: a value, an option, or what the command works on."""
        spelt, separator, value = typed.partition("=")
        if self._open is not None:
            yield from self._values(self._open, typed)
        elif separator and spelt in self._options:
            for word, meaning in self._values(self._options[spelt], value):
                yield f"{spelt}={word}", meaning
        elif typed.startswith("-"):
            yield from _spelt(self._options.values())
        elif left := self._arguments[len(self.places) :] or self._arguments[-1:]:
            yield from self._values(left[0], typed)

    def _values(self, option: Parameter, typed: str) -> Iterator[Word]:
        """Give the values of an option or of an argument."""
        if option.declaration.completes is None:
            yield from ((word, "") for word in option.choices)
            return
        before, comma, _ = typed.rpartition(",") if option.kind is Kind.WORDS else ("", "", "")
        for word, meaning in option.declaration.completes(Line(self.places, self.values)):
            yield f"{before}{comma}{word}", meaning
