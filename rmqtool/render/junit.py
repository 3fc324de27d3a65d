"""Findings as JUnit XML: one test case for each finding code that was looked for.

Source: the report format of Apache Ant's JUnit task, as CI systems read it (Jenkins' junit-10.xsd).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape as escape_text
from xml.sax.saxutils import quoteattr

from rmqtool.render.values import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rmqtool.findings.catalogue import Severity
    from rmqtool.findings.finding import Finding

# What XML 1.0 cannot hold, not even as a reference.
FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
SHOWN: Final = 100  # findings in the text of one failure


@dataclass(frozen=True, slots=True)
class JunitSuite:
    """One store."""

    name: str  # path of the store
    findings: Sequence[Finding]  # the results
    codes: Sequence[tuple[str, str]]  # area and name of each code that was looked for
    seconds: float  # how long it took
    fail_on: Severity  # the least severity that is a failure
    # paths that could not be read, with the reason; each is an error
    unread: Sequence[tuple[str, str]] = ()
    # what was not looked at, with the reason; each is a skipped case
    left_out: Sequence[tuple[str, str]] = ()
    # codes that say nothing when they were not found, with the reason: skipped, too
    unproven: Mapping[str, str] = field(default_factory=dict)
    is_finished: bool = True  # whether the validation came to its end; if not, that is an error


def junit(suites: Iterable[JunitSuite]) -> bytes:
    """Give a JUnit report."""
    text = "".join(_suite(suite) for suite in suites)
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return f'{head}\n<testsuites name="rmqtool validate">\n{text}</testsuites>\n'.encode()


def _suite(suite: JunitSuite) -> str:
    by_code: dict[str, list[Finding]] = {}
    for finding in suite.findings:
        by_code.setdefault(finding.code, []).append(finding)
    cases, failures, skipped = [], 0, len(suite.left_out)
    for area, code in suite.codes:
        findings = by_code.get(code, [])
        fails = any(finding.severity.rank >= suite.fail_on.rank for finding in findings)
        failures += fails
        if not findings and code in suite.unproven:
            skipped += 1
            cases.append(_outcome(area, code, "skipped", suite.unproven[code]))
        else:
            cases.append(_case(area, code, findings, fails=fails))
    errors = list(suite.unread)
    if not suite.is_finished:
        errors.append((suite.name, "interrupted: everything after it was not checked"))
    cases += [_outcome("unread", path, "error", reason) for path, reason in errors]
    cases += [_outcome("not checked", what, "skipped", why) for what, why in suite.left_out]
    counts = (
        f'tests="{len(cases)}" failures="{failures}" errors="{len(errors)}" '
        f'skipped="{skipped}" time="{suite.seconds:.3f}"'
    )
    return f" <testsuite name={_attribute(suite.name)} {counts}>\n{''.join(cases)} </testsuite>\n"


def _outcome(area: str, name: str, kind: str, message: str) -> str:
    """Give a case that neither passed nor failed."""
    return (
        f'  <testcase classname="{area}" name={_attribute(name)}>\n'
        f'   <{kind} type="{area}" message={_attribute(message)}/>\n  </testcase>\n'
    )


def _case(area: str, code: str, findings: list[Finding], *, fails: bool) -> str:
    """Give one test case."""
    head = f'  <testcase classname="{area}" name="{code}"'
    if not findings:
        return f"{head}/>\n"
    lines = "\n".join(_line(finding) for finding in findings[:SHOWN])
    if fails:
        message = _attribute(f"{len(findings):,} found; {findings[0].message}")
        body = f'   <failure type="{code}" message={message}>{_text(lines)}</failure>\n'
    else:
        body = f"   <system-out>{_text(lines)}</system-out>\n"
    return f"{head}>\n{body}  </testcase>\n"


def _line(finding: Finding) -> str:
    place = "" if finding.position is None else f" at {finding.position:#x} ({finding.position})"
    facts = "".join(
        f"; {name} {value}"
        for name, value in (
            ("topic", finding.topic),
            ("queue", finding.queue_id),
            ("queue offset", finding.queue_offset),
            ("expected", finding.expected),
            ("actual", finding.actual),
        )
        if value not in {None, ""}
    )
    return escape(
        f"{finding.severity}: {finding.path}{place}: {finding.message}{facts} [{finding.repair}]"
    )


def _attribute(text: str) -> str:
    return quoteattr(FORBIDDEN.sub("?", escape(text)))


def _text(text: str) -> str:
    return escape_text(FORBIDDEN.sub("?", text))
