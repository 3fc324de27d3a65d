"""How releases are named and ordered, and which one wrote a store: one answer everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool import rebuild, repair
from rmqtool.broker.release import COMMONEST, LINES, RELEASES, Trace, Version, WrittenBy
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.cli.commands.query import Query
from rmqtool.errors import NotAStore, UnreadablePath, UnsupportedStore, UsageError
from rmqtool.info.overview import overview
from rmqtool.rebuild.options import RebuildOptions
from rmqtool.repair.options import RepairOptions
from rmqtool.report.gather import gather
from rmqtool.startup import predict
from rmqtool.startup.report import verdict
from rmqtool.store import release
from rmqtool.store.release import written_by
from rmqtool.store.tree import open_store
from tests.stores import broker_conf, fixture_names, fixture_store, manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REFUSED: Final = (
    "",
    "5",
    "5.6",
    "5.6.0",
    "6.0.0",
    "4.8.0",
    "5.3.x",
    "latest",
    "5.3.3 ",
    "\u0665.3.3",
)
TAKEN: Final = {
    "5.3.3": Version(5, 3, 3),
    "5.3.99": Version(5, 3, 99),
    "5.3": LINES["5.3"],
    "5.4.0-SNAPSHOT": Version(5, 4, 0),
    "V5_3_3": Version(5, 3, 3),
    "v5.5.0": Version(5, 5, 0),
    "V5_4_0_SNAPSHOT": Version(5, 4, 0),
    "4.9": LINES["4.9"],
}


def _query(text: str) -> object:
    return Query("store", topic=("T",), time="0", like_broker=text).wanted()


ASK: Final[dict[str, Callable[[str], object]]] = {
    "validate": lambda text: ValidateOptions("store", broker_version=text),
    "repair": lambda text: RepairOptions("store", broker_version=text),
    "rebuild": lambda text: RebuildOptions("store", check=True, broker_version=text),
    "query": _query,
}


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("command", ASK)
def test_refused_everywhere(command: str, text: str) -> None:
    """What is no version, or one whose rules nobody knows, is refused by all with one reason."""
    with pytest.raises(UsageError) as expected:
        Version.parse(text)
    with pytest.raises(UsageError) as said:
        ASK[command](text)
    assert expected.value.reason == said.value.reason


@pytest.mark.parametrize("text", TAKEN)
def test_taken_everywhere(text: str) -> None:
    """A release may be named as people, files and RocketMQ itself name it."""
    assert TAKEN[text] == Version.parse(text)
    assert all(ask(text) for ask in ASK.values())


@pytest.mark.parametrize(("text", "rules"), {"5.5.7": "5.5.1", "5.3.99": "5.3.4"}.items())
def test_unknown_patch(text: str, rules: str, tmp_path: Path) -> None:
    """A release that is not known does not pass for a known one: the answer says whose rules."""
    version = Version.parse(text)
    assert str(version.rules_of) == rules
    assert version.doubt.startswith(f"{text} is not known here: the rules of {rules}")
    assert not Version.parse(rules).doubt
    prediction = predict(open_store(fixture_store("rocketmq-4.9.3-traffic", tmp_path)), text)
    assert f"a {text} broker (unproven: by the rules of {rules}) would" in verdict(prediction)
    assert not prediction.is_proven


def test_known_but_unproven(tmp_path: Path) -> None:
    """What was never compared with a broker of that release is said to be so."""
    store = open_store(fixture_store("rocketmq-4.9.3-traffic", tmp_path))
    assert "a 5.3.2 broker (unproven: by its source) would" in verdict(predict(store, "5.3.2"))
    assert "unproven" not in verdict(predict(store, "5.5.1"))


def test_order() -> None:
    """Releases are ordered by number, not by text, and a line is spoken for by one of its own."""
    assert list(RELEASES) == sorted(RELEASES)
    assert Version(5, 2, 0) < Version(5, 10, 0)
    assert all(version.line == line and version in RELEASES for line, version in LINES.items())


@pytest.mark.parametrize(
    ("at_least", "below", "expected"),
    [
        (None, None, "5.3.3"),
        (None, "5.0.0", "4.9.3"),
        ("4.9.4", "5.0.0", "4.9.8"),
        (None, "5.2.0", "5.1.4"),
        ("5.2.0", None, "5.3.3"),
        ("5.2.0", "5.4.0", "5.3.3"),
        ("5.3.4", "5.4.0", "5.3.4"),
        ("5.4.0", None, "5.5.0"),
        ("5.5.0", "5.0.0", "5.5.0"),  # upgraded: an old trace remained
    ],
)
def test_range(at_least: str | None, below: str | None, expected: str) -> None:
    """The release that is taken lies in the range, whatever is known of it."""
    bounds = [None if text is None else Version.parse(text) for text in (at_least, below)]
    wrote = WrittenBy.of([Trace("a", "b", bounds[0]), Trace("c", "d", below=bounds[1])])
    assert Version.parse(expected) == wrote.version


@pytest.mark.parametrize(
    ("known", "expected"),
    [(None, "5.5.0"), ("5.4.0", "5.3.3"), ("5.0.0", "4.9.3"), ("5.5.1", "5.5.0")],
)
def test_doubtful_trace(known: str | None, expected: str) -> None:
    """One that a flipped bit may have written counts where no other contradicts it."""
    below = None if known is None else Version.parse(known)
    doubtful = Trace("checkpoint", "a field", Version(5, 5, 0), is_doubtful=True)
    assert Version.parse(expected) == WrittenBy.of([doubtful, Trace("a", "b", below=below)]).version


def test_doubtful_trace_beside_an_old_one() -> None:
    """Where others contradict each other, too, the store was upgraded, and it counts."""
    traces = [
        Trace("checkpoint", "a field", Version(5, 5, 0), is_doubtful=True),
        Trace("a", "an old file", below=Version(5, 4, 0)),
        Trace("b", "a new file", Version(5, 4, 0)),
    ]
    wrote = WrittenBy.of(traces)
    assert (Version(5, 5, 0), None) == (wrote.at_least, wrote.below)


def test_commonest_without_traces() -> None:
    """Where nothing tells, the commonest release is taken, and nothing is claimed."""
    assert (COMMONEST, "unknown") == (WrittenBy.of([]).version, str(WrittenBy.of([])))


def test_pull_offsets_tell_before_5_5_1(tmp_path: Path) -> None:
    """5.5.0 alone writes pullOffsetTable; a store without it may be of a later release."""
    root = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    wrote = written_by(open_store(root))
    assert (wrote.at_least, wrote.below) == (Version(5, 5, 0), Version(5, 5, 1))
    path = root / "config" / "consumerOffset.json"
    path.write_text(path.read_text().replace('"pullOffsetTable"', '"other"'))
    assert written_by(open_store(root)).below is None


def test_file_that_a_database_stands_for(tmp_path: Path) -> None:
    """A file of offsets that brokers left behind tells nothing of the last one that wrote."""
    root = fixture_store("rocketmq-5.5.0-rocksdb", tmp_path)
    before = written_by(open_store(root))
    old = '{"offsetTable":{\n\t"T@G":{0:1\n\t}\n}}'
    (root / "config" / "consumerOffset.json").write_text(old)
    assert before[1:] == written_by(open_store(root))[1:]
    assert before.at_least


@pytest.mark.parametrize("scenario", ["traffic", "crash", "timer", "batch-queue", "compaction"])
def test_5_5_1_is_told(scenario: str, tmp_path: Path) -> None:
    """A store of 5.5.1 is told from one of 5.5.0, and its own rules are taken."""
    for version in (Version(5, 5, 0), Version(5, 5, 1)):
        into = tmp_path / str(version)
        into.mkdir()
        root = fixture_store(f"rocketmq-{version}-{scenario}", into)
        assert version == written_by(open_store(root)).version


def test_a_part_of_offsets_tells_nothing(tmp_path: Path) -> None:
    """Offsets without the other file, or of an older release, do not make it 5.5.1."""
    for name, gone in (("5.5.1", "consumerOrderInfo.json"), ("5.3.3", "topics.json")):
        into = tmp_path / name
        into.mkdir()
        root = fixture_store(f"rocketmq-{name}-traffic", into)
        (root / "config" / gone).unlink()
        assert Version(5, 5, 1) != written_by(open_store(root)).at_least


@pytest.mark.parametrize("name", fixture_names())
def test_every_command_names_the_writer(name: str, tmp_path: Path) -> None:
    """All commands take one release for the writer of a store: on all fixtures the true one."""
    root, conf = fixture_store(name, tmp_path), str(broker_conf(name))
    store, options = open_store(root, conf), ValidateOptions(root, broker_conf=conf, jobs=1)
    findings = validate(replace(options, level=CheckLevel.QUICK))
    list(findings)
    named = {"validate": findings.version}
    ((_, (row,)),) = overview(store, ["store"])
    named["info"] = Version.parse(row.rules_of)
    try:
        named["startup"] = Version.parse(predict(store).version)
    except (UnsupportedStore, NotAStore):
        assert name.endswith(("dledger", "rocksdb"))
    if not name.endswith("default-geometry"):  # sparse files of gigabytes
        facts = gather(options)
        named["report"] = Version.parse(str(facts.sections["store"][0].rules_of))
        named["repair"] = Version.parse(repair.plan(root, broker_conf=conf).broker_version)
        if store.commitlog:
            result = rebuild.index(root, check=True, broker_conf=conf, jobs=1)
            named["rebuild"] = result.rules.release.version
    wrote = Version.parse(manifest(name)["version"])
    assert dict.fromkeys(named, wrote) == named


def test_log_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log that cannot be read, that is said; the other files tell the release."""
    store = open_store(fixture_store("rocketmq-5.3.3-traffic", tmp_path))
    error = UnreadablePath(path="commitlog", reason="the disk fails")

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(release, "find_tail", fails)
    unread: list[UnreadablePath] = []
    wrote = written_by(store, unread.append)
    assert [error] == unread
    assert wrote.at_least is not None
