"""Findings as SARIF 2.1.0, the format in which code hosts and CI systems take results.

Source: OASIS Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from rmqtool.findings.catalogue import Severity
from rmqtool.render.values import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqtool.findings.finding import Finding

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION: Final = "2.1.0"
LEVELS: Final = {Severity.DAMAGE: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
BASE: Final = "STORE"


class CodeMeaning(Protocol):
    """What a finding code means, as the check registry says it."""

    @property
    def name(self) -> str:
        """The code."""

    @property
    def severity(self) -> Severity:
        """How bad it is as a rule."""

    @property
    def meaning(self) -> str:
        """What is the case."""

    @property
    def consequence(self) -> str:
        """What a broker does about it."""

    @property
    def remedy(self) -> str:
        """What helps."""


@dataclass(frozen=True, slots=True)
class SarifRun:
    """One store."""

    findings: Sequence[Finding]  # the results
    rules: Sequence[CodeMeaning]  # all codes that the run knows
    store: str  # absolute path of the store
    unread: Sequence[tuple[str, str]] = ()  # paths that could not be read, with the reason
    left_out: Sequence[tuple[str, str]] = ()  # what was not looked at, with the reason
    is_finished: bool = True  # whether the validation came to its end


def sarif(runs: Iterable[SarifRun], version: str) -> bytes:
    """Give a SARIF log.

    Args:
        runs: one for each store.
        version: of rmqtool.
    """
    log = {"$schema": SCHEMA, "version": VERSION, "runs": [_run(run, version) for run in runs]}
    return json.dumps(log, indent=1, ensure_ascii=True).encode() + b"\n"


def _run(run: SarifRun, version: str) -> dict[str, Any]:
    numbers = {rule.name: number for number, rule in enumerate(run.rules)}
    notifications = [
        _notification("error", f"could not be read: {line}") for line in _lines(run.unread)
    ]
    notifications += [
        _notification("note", f"not checked: {line}") for line in _lines(run.left_out)
    ]
    if not run.is_finished:
        text = "interrupted: everything after it was not checked"
        notifications.append(_notification("error", text))
    rules = [_rule(rule) for rule in run.rules]
    return {
        "tool": {"driver": {"name": "rmqtool", "version": version, "rules": rules}},
        "invocations": [
            {
                "executionSuccessful": run.is_finished and not run.unread,
                "toolExecutionNotifications": notifications,
            }
        ],
        "originalUriBaseIds": {BASE: {"uri": f"file://{quote(run.store.rstrip('/'))}/"}},
        "results": [_result(finding, numbers) for finding in run.findings],
    }


def _lines(facts: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{what}: {why}" for what, why in facts]


def _notification(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": escape(text)}}


def _rule(rule: CodeMeaning) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.meaning},
        "fullDescription": {"text": f"{rule.meaning}. A broker: {rule.consequence}."},
        "help": {"text": f"Remedy: {rule.remedy}."},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(finding: Finding, numbers: dict[str, int]) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.path), "uriBaseId": BASE}}
    if finding.position is not None and finding.position >= 0:
        location["region"] = {"byteOffset": finding.position, "byteLength": finding.length or 0}
    facts = {
        "physicalOffset": finding.physical_offset,
        "topic": finding.topic and escape(finding.topic),
        "queueId": finding.queue_id,
        "queueOffset": finding.queue_offset,
        "expected": escape(finding.expected),
        "actual": escape(finding.actual),
        "repair": finding.repair,
    }
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": LEVELS[finding.severity],
        "message": {"text": escape(finding.message)},
        "locations": [{"physicalLocation": location}],
        "properties": {name: value for name, value in facts.items() if value not in {None, ""}},
    }
    if finding.code in numbers:
        result["ruleIndex"] = numbers[finding.code]
    return result
