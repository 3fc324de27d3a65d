"""`rmqtool-findings(7)`: what each code means, what follows from it, and what helps."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from rmqtool.cli.manual.blocks import Page, Section, Subsection, Term, Text
from rmqtool.cli.manual.commands import FINDINGS, see_also
from rmqtool.cli.manual.examples import examples
from rmqtool.findings.catalogue import FAMILIES, Severity
from rmqtool.findings.registry import CODES
from rmqtool.languages import codes, sentences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.cli.manual.blocks import Block
    from rmqtool.findings.catalogue import Code
    from rmqtool.languages import Language

NUMBER: Final = 7
UNDETECTABLE: Final = "rmqtool.findings.undetectable"
SEVERITIES: Final = {
    Severity.DAMAGE: "A message is lost, or a consumer misses it, gets another one or gets it at a "
    "wrong time; or a file leads its readers astray, or keeps a broker from starting.",
    Severity.WARNING: "No consumer misses a message by it yet. A search by key or time may miss "
    "one, or the next start, expiry or change of settings may lose one.",
    Severity.NOTE: "No message is affected. A sound store may have it.",
}


def findings_page() -> Page:
    """Give the whole page."""
    blocks: list[Block] = [
        Section("DESCRIPTION"),
        Text(
            "A finding says that something in a store is not as it should be. It has a code, a "
            "severity, the file, the position and length in it, and the physical offset. It names "
            "topic, queue and queue offset of the unit or record. It shows the actual "
            "value, the expected value, and the remedy. Codes are permanent: none ever gets "
            "another meaning. 'rmqtool help CODE' shows a single one."
        ),
        Section("SEVERITIES"),
        Text("The severity says whether a consumer loses or misses a message."),
        *(Term(str(severity), (text,)) for severity, text in SEVERITIES.items()),
        Section("CODES"),
        Text(
            "In commands, STORE is the store that was checked, and DIR a new directory. VERSION is "
            "the release of the broker, {path} the file that the finding names."
        ),
    ]
    for prefix, family in groupby(CODES.values(), attrgetter("prefix")):
        blocks.append(Subsection(f"{prefix}: {FAMILIES[prefix].title}"))
        blocks += map(_item, family)
    blocks += _undetectable()
    blocks += examples("findings")
    blocks += see_also(FINDINGS)
    return Page(FINDINGS, NUMBER, "defects that rmqtool finds in a store", tuple(blocks))


def code_page(code: Code) -> Page:
    """Give what the page says of one code."""
    _, *described = _item(code).texts
    blocks: list[Block] = [Section(_term(code)), *map(Text, described)]
    return Page(code.name, NUMBER, code.meaning, tuple(blocks))


def translated_page(topic: str, language: Language) -> Page | None:
    """Give in another language what a code, or all codes, mean; None for any other topic."""
    asked = [code for code in CODES.values() if topic in {FINDINGS, code.name}]
    if not asked:
        return None
    items = [_translated(code, language) for code in asked]
    return Page(topic, NUMBER, items[0].texts[0] if len(asked) == 1 else topic, (*items,))


def _translated(code: Code, language: Language) -> Term:
    meaning, consequence, remedy, *when = codes(language)[code.name]
    texts = [f"Severity: {text}" for text in when]
    texts += [f"Consequence: {consequence}", f"Remedy: {remedy}", f"Repair: {code.cure}"]
    say = sentences(language).of
    return Term(_term(code), (meaning, *map(say, [*texts, f"Command: {code.command}"])))


def _item(code: Code) -> Term:
    return Term(
        _term(code),
        (
            f"{_sentence(code.meaning)}",
            *([f"Severity: {_sentence(code.when, upper=False)}"] if code.when else []),
            f"Consequence: {_sentence(code.consequence, upper=False)}",
            f"Remedy: {_sentence(code.remedy, upper=False)}",
            f"Repair: {code.cure}.",
            f"Command: {code.command}",
        ),
    )


def _term(code: Code) -> str:
    return f"{code.name} ({' or '.join((code.severity, *code.also))})"


def _sentence(text: str, *, upper: bool = True) -> str:
    first = text[:1].upper() if upper else text[:1]
    return f"{first}{text[1:].rstrip('.')}."


def _undetectable() -> list[Block]:
    """Give what no check can find, where the checks say so."""
    if find_spec(UNDETECTABLE) is None:
        return []
    table: Mapping[str, str] = import_module(UNDETECTABLE).UNDETECTABLE
    return [
        Section("WHAT NO CHECK CAN FIND"),
        Text("Nothing in a store tells a changed value of these from the one that was written:"),
        *(Term(field, (_sentence(reason),)) for field, reason in table.items()),
    ]
