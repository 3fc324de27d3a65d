"""The release watch prints what changed of all that rmqtool goes by, and nothing else."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest

from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rule, Rules
from tests.truth import watch
from tests.truth.java import REST, Sources, classes_of, tokens_of
from tests.truth.watch import Name, Review, names_in
from tests.truth.watch_stores import judged

BEFORE: Final = "5.5.0"
AFTER: Final = "5.5.1"
JAVA: Final = r"""
package a; // class Not { void x() {} }
@Note(name = "}{", value = {1, 2})
public class Outer<T extends Comparable<T>> extends Base implements Runnable {
    private static final char BRACE = '{', QUOTE = '\''; /* } */
    private final Runnable task = new Runnable() { public void run() { go("}"); } };
    int[] numbers = {1, 2, 3};
    static { System.out.println("class Fake {"); }
    @Override public synchronized void run() throws Exception { if (x) { y(); } }
    public Outer(int size) { this.size = size; }
    void twice(int a) { one(); }
    void twice(String a) { two("a // b"); }
    abstract int none();
    enum Kind { A("{"), B("}"); Kind(String text) { } int of() { return 1; } }
    static class Inner { void deep() { } }
}
"""


def test_methods_of_classes() -> None:
    """Braces in strings, characters and comments count for nothing; methods of one name are one."""
    found = classes_of(JAVA)
    assert {"Outer", "Kind", "Inner"} == found.keys()
    assert {REST, "run", "Outer", "twice", "none"} == found["Outer"].keys()
    assert ["one", "two"] == [one for one in found["Outer"]["twice"] if one in {"one", "two"}]
    assert '"a // b"' in found["Outer"]["twice"]
    assert {"numbers", "BRACE", "task", '"class Fake {"'} <= {*found["Outer"][REST]}
    assert {"deep"} == found["Inner"].keys() - {REST}
    assert "of" in found["Kind"]


def test_comments_and_spaces_change_nothing() -> None:
    """What Java does not see is not compared."""
    one, other = "int a ( ) { return 1 ; } // x", "@X(1) int a(){/* y */return 1;}"
    assert tokens_of(one) == tokens_of(other)
    assert tokens_of("return x") != tokens_of("returnx")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("CommitLog#recoverNormally, #load, 5.0", ["CommitLog#recoverNormally", "CommitLog#load"]),
        ("CommitLog.Callback#doAppend", ["Callback#doAppend"]),
        ("MappedFile, IndexFile#putKey", ["MappedFile#its fields", "IndexFile#putKey"]),
        ("HookUtils#checkBefore-\nPutMessage", ["HookUtils#checkBeforePutMessage"]),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    """A method without a class is of the class before; a class alone is all of it."""
    assert names == [str(name) for name in names_in(text, with_classes=True)]


def test_rules_are_named() -> None:
    """Each rule and many a docstring name what they go by."""
    places = watch.named()
    rules = {f"rule {rule.name}" for rule in vars(Rules).values() if isinstance(rule, Rule)}
    assert rules <= {place for found in places.values() for place in found}
    assert 200 < len(places)


def _jar(path: Path, body: str) -> Sources:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("a/CommitLog.java", f"class CommitLog {{ {body} }}")
    return Sources([path])


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("void recoverNormally() { a(); } /* x */", []),
        ("void recoverNormally() { a( ); }", []),
        ("void recoverNormally() { b(); }", ["changed"]),
        ("void recoverElsewhere() { a(); }", ["gone", "new"]),
    ],
)
def test_what_changed_is_to_be_looked_at(body: str, kinds: list[str], tmp_path: Path) -> None:
    """A statement counts, a comment does not; what nobody looked at is printed with its rules."""
    old = _jar(tmp_path / "old.jar", "void recoverNormally() { a(); }")
    comparison = watch.compare(old, _jar(tmp_path / "new.jar", body))
    left = watch.to_look_at(comparison, Review({}, {}))
    assert kinds == sorted(comparison.kind(name) for name in left)
    lines = [*watch.report(comparison, Review({}, {}))]
    assert bool(kinds) == any("rule normal_start" in line for line in lines)
    if kinds == ["changed"]:
        assert ["-a ( ) ;", "+b ( ) ;"] == [
            line for line in comparison.diff(left[0]) if line[0] in "+-"
        ]


def test_reviews_lead_somewhere() -> None:
    """A rule that follows a change has one at that release; a file names the method itself."""
    places = watch.named()
    for release in tomllib.loads(watch.REVIEWS.read_text(encoding="utf-8")):
        review = Review.of(release)
        assert len(review.methods) == len(review.nothing) + sum(map(len, review.follows.values()))
        for place, names in review.follows.items():
            rule = getattr(Rules, place, None)
            if rule is not None:
                assert Version.known(release) in {since for since, _ in rule.changes}
                place = f"rule {place}"  # noqa: PLW2901 - as the watch has it
            for text in names:
                owner, _, method = text.partition("#")
                own = Name(owner, "" if method == watch.FIELDS else method)
                assert place in places.get(own, set()) | places.get(Name(owner, ""), set()), text


@pytest.mark.broker
def test_fixed_pair(capsys: pytest.CaptureFixture[str]) -> None:
    """5.5.0 to 5.5.1: the rules that changed, nothing that was not looked at, and the keys."""
    assert not watch.main([BEFORE, AFTER])
    lines = capsys.readouterr().out.splitlines()
    begin, end = lines.index("Rules that the release changed:"), lines.index("To be looked at:")
    rules = {line.partition(":")[0].strip() for line in lines[begin + 1 : end - 1]}
    assert {*Review.of(AFTER).follows} == rules
    assert {"refuses_negative_sizes", "derive/placement.py", "startup/combination.py"} <= rules
    assert lines[end + 1].startswith("Keys of a broker.conf")
    added = {line.split()[1] for line in lines[end + 2 :] if line.startswith("  +")}
    assert "rocksdbCQSelectiveDoubleWriteEnable" in added
    (before, after), _ = watch.sources_of(BEFORE, AFTER)
    changed = {str(name) for name in watch.compare(before, after).changed}
    assert not Review.of(AFTER).methods - changed  # nothing stale was looked at


@pytest.mark.broker
@pytest.mark.all_variants
def test_stores_of_a_release() -> None:
    """What the newest release writes is found sound, starts and needs no repair."""
    lines = [*judged(AFTER, {"crash", "rocksdb-selective"})]
    assert [True, True] == [is_right for _, is_right in lines], lines
