"""The language of help about findings and of doctor's screen: English, or Chinese.

Codes, columns, commands and JSON are the same in every language. A translation is two text files in
`translations/`, whose lines have fields apart by ` | `: `findings.txt` says what codes mean,
`sentences.txt` has sentences, whose `{}` stand for what is filled in.
"""

from __future__ import annotations

import enum
import os
import re
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SEPARATOR: Final = " | "
VARIABLE: Final = "RMQTOOL_LANG"  # what an option reads where it is not given
LOCALES: Final = ("LC_ALL", "LC_MESSAGES", "LANG")  # in the order that POSIX gives them
_PLACE: Final = f"{__file__.rpartition('/')[0]}/translations"
_PLURAL: Final = "(s)"
_VALUE: Final = r"((?:(?!; ).)+?)"
_COUNT: Final = r"([\d,]+)"
_COLON, _SEMICOLON, _COMMA = "\uff1a", "\uff1b", "\uff0c"  # of Chinese
_CLAUSES: Final = (("; ", _SEMICOLON), (", ", _COMMA))  # where a sentence may be cut
_FINDING: Final = (
    r"(?P<code>[A-Z]{2}-[A-Z0-9-]+) (?P<path>\S*): .*?(?:; and (?P<more>[\d,]+) findings? more)?"
)


class Language(enum.StrEnum):
    """A language."""

    ENGLISH = "en"
    CHINESE = "zh"


def chosen(asked: Language | None = None) -> Language:
    """Give the language that is asked for; without one, the locale's where there is one."""
    if asked is not None:
        return asked
    name = next((os.environ[name] for name in LOCALES if os.environ.get(name)), "")
    return Language.CHINESE if name.lower().startswith("zh") else Language.ENGLISH


@cache
def codes(language: Language) -> dict[str, tuple[str, ...]]:
    """Give, by code, its meaning, consequence, remedy and, where it has one, its severity rule."""
    return {name: tuple(texts) for name, *texts in _rows("findings", language)}


def sentences(language: Language) -> Sentences:
    """Give what speaks a language, the texts of finding codes among what it knows."""
    from rmqtool.findings.registry import CODES

    english = {
        text: (str(code), which)
        for code in CODES.values()
        for which, text in enumerate((code.meaning, code.consequence, code.remedy))
    }
    return Sentences(language, english)


class Sentences:
    """Translates sentences that are put together of parts.

    Args:
        language: into which.
        english: texts of codes in English, with their code and which of its texts they are.
    """

    def __init__(self, language: Language, english: dict[str, tuple[str, int]]) -> None:
        self._codes, self._english = codes(language), english
        rows = [(text, wanted) for text, wanted in _rows("sentences", language)]
        # The more of a sentence is fixed, the earlier it is tried.
        rows.sort(key=lambda row: len(row[0].replace("{}", "")), reverse=True)
        self._patterns = [(_pattern(text), wanted) for text, wanted in rows]

    def of(self, text: str) -> str:
        """Give a sentence in the language; what has no translation stays as it is."""
        return self._whole(text) or self._parts(text) or text

    def _whole(self, text: str) -> str | None:
        if text in self._english:
            code, which = self._english[text]
            return self._codes[code][which]
        if (finding := re.fullmatch(_FINDING, text)) and finding["code"] in self._codes:
            more = self.of(f"and {finding['more']} findings more") if finding["more"] else ""
            meaning = self._codes[finding["code"]][0]
            text = f"{finding['code']} {finding['path']}{_COLON}{meaning}"
            return f"{text}{_SEMICOLON}{more}" if more else text
        for pattern, wanted in self._patterns:
            if match := pattern.fullmatch(text):
                return _filled(wanted, [self.of(text) for text in match.groups()])
        return None

    def _parts(self, text: str) -> str | None:
        """Cut a sentence in two where one of both is known."""
        for apart, joined in _CLAUSES:
            for cut in reversed([*re.finditer(re.escape(apart), text)]):
                first, rest = text[: cut.start()], text[cut.end() :]
                if (known := self._whole(first)) is not None:
                    return f"{known}{joined}{self.of(rest)}"
                if (known := self._whole(rest)) is not None:
                    return f"{self.of(first)}{joined}{known}"
        return None


def _rows(name: str, language: Language) -> Iterator[list[str]]:
    """Yield the fields of each line of one file of a translation."""
    # What the standard library has for files of a package takes 5 ms to load, at each start.
    with open(f"{_PLACE}/{language}/{name}.txt", encoding="utf-8") as file:  # noqa: PTH123
        lines = file.read().splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            yield [text.strip() for text in line.split(SEPARATOR)]


def _pattern(text: str) -> re.Pattern[str]:
    """Give what matches an English sentence; its `{}` are groups, numbers before a plural."""
    first, *parts = text.split("{}")
    expression = re.escape(first)
    for part in parts:
        is_count = re.match(r" [a-z ]*\w+\(s\)", part)
        expression += _COUNT if is_count else _VALUE
        expression += re.escape(part).replace(re.escape(_PLURAL), "s?")
    return re.compile(expression)


def _filled(wanted: str, values: list[str]) -> str:
    """Fill in what stood in the English sentence, in order or by number from 1 on."""
    if re.search(r"\{\d\}", wanted):
        return wanted.format("", *values)
    return wanted.format(*values)
