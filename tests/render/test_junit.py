"""JUnit XML: well formed whatever is in it, counts that agree, nothing passed that was not run."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, Finding, finding
from rmqtool.findings.registry_commitlog import CL_TIME
from rmqtool.render.junit import JunitSuite, junit
from tests.render.test_sarif import FINDINGS, a_finding

CODES = [("commitlog", "CL-CRC"), ("commitlog", "CL-TIME"), ("index", "IX-KEY")]
# Element: what may stand in it, which attributes it must have, which it may have.
# Source: Jenkins' junit-10.xsd.
GRAMMAR: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"testsuite"}, set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"testcase", "properties", "system-out", "system-err"},
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname", "id", "package"},
    ),
    "testcase": (
        {"skipped", "error", "failure", "system-out", "system-err"},
        {"name"},
        {"classname", "time", "group"},
    ),
    **{name: (set(), set(), {"type", "message"}) for name in ("skipped", "error", "failure")},
    "system-out": (set(), set(), set()),
}


def suites(*given_suites: JunitSuite) -> list[ET.Element]:
    """Write a report, read it again, and hold it against the grammar."""
    root = ET.fromstring(junit(given_suites))  # noqa: S314 - our own output
    assert "testsuites" == root.tag
    for element in root.iter():
        children, needed, allowed = GRAMMAR[element.tag]
        assert {child.tag for child in element} <= children
        assert needed <= set(element.keys()) <= needed | allowed
    found = list(root)
    for suite in found:
        assert suite.get("tests") == str(len(list(suite)))
        for outcome, plural in (("failure", "failures"), ("error", "errors")):
            assert suite.get(plural) == str(len(suite.findall(f"testcase/{outcome}")))
        assert suite.get("skipped") == str(len(suite.findall("testcase/skipped")))
    return found


def outcomes(suite: ET.Element) -> dict[str, str]:
    """Give what became of each case, by name."""
    return {
        str(case.get("name")): case[0].tag if len(case) else "passed"
        for case in suite.iter("testcase")
    }


def a_suite(*findings: Finding, **facts: object) -> JunitSuite:
    """Give a suite that fails on damage."""
    return JunitSuite("/s", findings, CODES, 1.5, Severity.DAMAGE, **facts)  # type: ignore[arg-type]  # a test's shorthand


@given(st.lists(FINDINGS, max_size=4), st.text(max_size=9))
def test_grammar(findings: list[Finding], name: str) -> None:
    """Hostile names, control characters and lone surrogates leave the report well formed."""
    codes = sorted({("area", finding.code) for finding in findings})
    suite = JunitSuite(name, findings, codes, 0.1, Severity.NOTE, unread=[(name, name)])
    suites(suite, a_suite(*findings))


def test_failure() -> None:
    """A code that was found fails, with the place; the others have passed."""
    (suite,) = suites(a_suite(a_finding()))
    assert {"CL-CRC": "failure", "CL-TIME": "passed", "IX-KEY": "passed"} == outcomes(suite)
    assert "commitlog/00 0 at 0x80 (128)" in str(suite[0][0].text)


def test_less_than_asked_for() -> None:
    """What is less severe than --fail-on is told, and does not fail."""
    note = finding(CL_TIME, At("commitlog/0"), "m")._replace(severity=Severity.NOTE)
    (suite,) = suites(a_suite(note))
    assert "system-out" == outcomes(suite)["CL-TIME"]


def test_unproven() -> None:
    """What nobody looked for is skipped; it has not passed. What was found fails all the same."""
    unproven = {"CL-CRC": "--level quick reads no records", "IX-KEY": "the same"}
    left_out = [("records", "--level quick")]
    (suite,) = suites(a_suite(a_finding(), unproven=unproven, left_out=left_out))
    assert {
        "CL-CRC": "failure", "CL-TIME": "passed", "IX-KEY": "skipped", "records": "skipped",
    } == outcomes(suite)  # fmt: skip


def test_interrupted() -> None:
    """An interrupted run is an error, and so is what could not be read."""
    (suite,) = suites(a_suite(is_finished=False, unread=[("config/topics.json", "denied")]))
    assert "2" == suite.get("errors")
    assert "error" == outcomes(suite)["config/topics.json"]
