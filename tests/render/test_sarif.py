"""SARIF: what the standard allows, nothing lost, and nothing that reads better than it is."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, Finding, finding
from rmqtool.findings.registry import CODES
from rmqtool.findings.registry_commitlog import CL_CRC
from rmqtool.render.sarif import SarifRun, sarif
from tests.render.sarif_schema import LOG

RULES = tuple(CODES.values())
FINDINGS = st.builds(
    Finding,
    code=st.sampled_from(list(CODES.values())),
    severity=st.sampled_from(Severity),
    path=st.text(max_size=20),
    position=st.none() | st.integers(-1, 2**63 - 1),
    length=st.none() | st.integers(0, 2**63 - 1),
    physical_offset=st.none() | st.integers(-(2**63), 2**63 - 1),
    topic=st.none() | st.text(max_size=20),
    queue_id=st.none() | st.integers(0, 2**31 - 1),
    queue_offset=st.none() | st.integers(-(2**63), 2**63 - 1),
    expected=st.text(max_size=20),
    actual=st.text(max_size=20),
    message=st.text(max_size=20),
    repair=st.text(max_size=20),
)


def log(*runs: SarifRun) -> dict[str, Any]:
    """Write a log and read it again, as strictly as the standard is."""
    document: dict[str, Any] = json.loads(sarif(runs, "1.2.3"))
    jsonschema.validate(document, LOG)
    return document


def a_finding() -> Finding:
    """Give one finding as validate does."""
    at = At("commitlog/00 0", 128, 20, 128, "orders", 3, 7)
    return finding(CL_CRC, at, "what", expected=1, actual=2)


@given(st.lists(FINDINGS, max_size=4))
def test_schema(findings: list[Finding]) -> None:
    """Whatever was found, the log is as the standard says, with one result for each finding."""
    document = log(SarifRun(findings, RULES, "/data/a store"))
    results = document["runs"][0]["results"]
    assert [finding.code for finding in findings] == [result["ruleId"] for result in results]
    assert [RULES[result["ruleIndex"]].name for result in results] == [
        finding.code for finding in findings
    ]


def test_place() -> None:
    """A finding leads to the byte in the file; the store's own path is said once."""
    (run,) = log(SarifRun([a_finding()], RULES, "/data/a store"))["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert {"uri": "commitlog/00%200", "uriBaseId": "STORE"} == place["artifactLocation"]
    assert {"byteOffset": 128, "byteLength": 20} == place["region"]
    assert {"STORE": {"uri": "file:///data/a%20store/"}} == run["originalUriBaseIds"]


@pytest.mark.parametrize(
    ("unread", "left_out", "is_finished", "expected"),
    [
        ([], [], True, (True, [])),
        ([], [("index", "why not")], True, (True, ["note"])),
        ([("config/topics.json", "denied")], [], True, (False, ["error"])),
        ([], [], False, (False, ["error"])),
    ],
    ids=["whole", "left out", "unread", "interrupted"],
)
def test_incomplete(
    unread: list[tuple[str, str]],
    left_out: list[tuple[str, str]],
    is_finished: bool,
    expected: tuple[bool, list[str]],
) -> None:
    """What was not checked is said, and what could not be checked is no success."""
    run = SarifRun([], RULES, "/s", unread=unread, left_out=left_out, is_finished=is_finished)
    (invocation,) = log(run)["runs"][0]["invocations"]
    levels = [one["level"] for one in invocation["toolExecutionNotifications"]]
    assert expected == (invocation["executionSuccessful"], levels)
