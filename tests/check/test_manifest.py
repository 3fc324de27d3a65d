"""Manifests: what changed is said, what did not is not read again, and nothing else changes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool import __version__
from rmqtool.check.manifest import manifest_ledger
from rmqtool.check.manifest.manifest import Manifest, ManifestFile
from rmqtool.check.manifest.manifest_ledger import DigestTask, Ledger, digest
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.state.config import BEING_WRITTEN
from rmqtool.check.validate import Findings, validate
from rmqtool.cli.main import main
from rmqtool.errors import StoreError
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import Finding
from rmqtool.store.place import Place
from tests.check.validation import preceded
from tests.stores import broker_conf, fixture_names, fixture_store, held_by_another

TRAFFIC = "rocketmq-5.3.3-traffic"


def checked(store: Path, **options: object) -> tuple[Findings, list[Finding]]:
    """Validate with a manifest; give the run, and what is more than a note."""
    run = validate(ValidateOptions(store, keeps_book=True, **options))  # type: ignore[arg-type]  # a test's shorthand
    findings = [finding for finding in run if finding.severity is not Severity.NOTE]
    return run, findings


def manifest_of(run: Findings) -> Manifest:
    """Give the manifest of a run that came to its end."""
    assert run.ledger is not None
    assert run.ledger.manifest is not None
    return run.ledger.manifest


def changes(run: Findings) -> dict[str, list[str]]:
    """Give what became of files, as far as anything did."""
    assert run.ledger is not None
    return {name: paths for name, paths in run.ledger.changes.items() if paths}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Give a store of several segments."""
    return fixture_store(TRAFFIC, tmp_path)


@pytest.fixture
def book(store: Path) -> Path:
    """Give the manifest of that store."""
    run, _ = checked(store)
    path = store.parent / "book"
    path.write_bytes(manifest_of(run).encode())
    return path


def flip(path: Path, *, keeps_time: bool) -> None:
    """Change a byte of a property, which no checksum covers."""
    before = path.stat()
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + (0 if keeps_time else 1)))


@pytest.mark.parametrize("has_conf", [False, True], ids=["alone", "with-conf"])
@pytest.mark.parametrize("name", [*fixture_names(), *fixture_names(scenario="redelivered")])
def test_fixtures(name: str, tmp_path: Path, *, has_conf: bool) -> None:
    """A second run, which reads the end of the log only, finds what the first one found."""
    store, conf = fixture_store(name, tmp_path), broker_conf(name) if has_conf else None
    first, findings = checked(store, broker_conf=conf)
    book = tmp_path / "book"
    book.write_bytes(manifest_of(first).encode())
    assert manifest_of(first) == Manifest.read(book)
    second, again = checked(store, broker_conf=conf, since=book)
    assert findings == again
    assert manifest_of(first) == manifest_of(second)
    assert changes(second).keys() <= {"the same", "taken over"}
    sealed = [file.path for file in manifest_of(first).files.values() if file.sealed]
    assert manifest_of(first).is_proven
    assert sealed == changes(second).get("taken over", [])


def test_facts(store: Path, book: Path) -> None:
    """Sizes, times, hashes and counts are those of the files; every file of a store is there."""
    files = Manifest.read(book).files
    names = {str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()}
    assert {"abort.bak"} == names - files.keys()  # none of a store's own
    for path, file in files.items():
        raw, status = (store / path).read_bytes(), (store / path).stat()
        assert (status.st_size, status.st_mtime_ns, status.st_ino) == (
            file.size, file.mtime_ns, file.inode,
        )  # fmt: skip
        assert hashlib.sha256(raw.rstrip(b"\0")).hexdigest() == file.used_sha256
        assert hashlib.sha256(raw).hexdigest() == file.sha256
    counts = dict.fromkeys(("commitlog", "consume-queue", "index", "config"), 0)
    for file in files.values():
        if file.kind in counts:
            counts[file.kind] += file.records or 0
    assert {"commitlog": 1383, "consume-queue": 1383, "index": 3364, "config": 0} == counts


def test_unread_again(store: Path, book: Path) -> None:
    """Sealed segments are not read again, and that is said."""
    run, _ = checked(store, since=book)
    taken = changes(run)["taken over"]
    assert 3 == len(taken)
    assert 1383 - run.summary.account.records == sum(
        Manifest.read(book).files[path].records or 0 for path in taken
    )
    ((what, why),) = run.summary.account.left_out
    assert "3 segments of the log" in what
    assert "only a run without --since-manifest" in why
    assert "sound" not in run.summary.verdict


def test_changed_byte(store: Path, book: Path) -> None:
    """A changed byte is found when the time tells, and at --level deep when it does not."""
    segment = min((store / "commitlog").iterdir())
    flip(segment, keeps_time=False)
    run, findings = checked(store, since=book)
    then = Manifest.read(book).files[f"commitlog/{segment.name}"]
    used, now = then.used, hashlib.sha256(segment.read_bytes()[: then.used]).hexdigest()
    assert [("FS-CHANGED", 0, used)] == [
        (finding.code, finding.position, finding.length) for finding in findings
    ]
    (finding,) = findings
    assert f"the first {used:,} bytes of the file changed after {book} was made" in finding.message
    assert (f"sha256 {then.used_sha256}", f"sha256 {now}") == (finding.expected, finding.actual)
    assert finding.expected != finding.actual
    assert not manifest_of(run).is_proven
    assert "taken over" not in changes(run)  # it is the first one: all behind it is read, too


def test_changed_byte_with_its_time(store: Path, book: Path) -> None:
    """A changed byte whose file has its old time is found by whoever reads it, and only then."""
    segment = min((store / "commitlog").iterdir())
    flip(segment, keeps_time=True)
    assert [] == checked(store, since=book)[1]
    deep = checked(store, since=book, level=CheckLevel.DEEP)[1]
    assert ["FS-CHANGED"] == [finding.code for finding in deep]
    assert [] == checked(store)[1]  # no checksum covers it


def test_growth(store: Path) -> None:
    """A log that goes on has grown; what was there is compared by its hash."""
    segment = max((store / "commitlog").iterdir())
    whole = segment.read_bytes()
    used = len(whole.rstrip(b"\0"))
    segment.write_bytes(whole[: used // 2].ljust(len(whole), b"\0"))
    book = store.parent / "book"
    book.write_bytes(manifest_of(checked(store)[0]).encode())
    segment.write_bytes(whole)
    run, findings = checked(store, since=book)
    assert [] == findings
    assert [f"commitlog/{segment.name}"] == changes(run)["grown"]
    segment.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    assert "FS-CHANGED" in {finding.code for finding in checked(store, since=book)[1]}


def test_made_ahead_of_need(store: Path) -> None:
    """A file that held nothing but zeros, and is written to, has grown."""
    segment = max((store / "commitlog").iterdir())
    whole = segment.read_bytes()
    segment.write_bytes(bytes(len(whole)))
    book = store.parent / "book"
    book.write_bytes(manifest_of(checked(store)[0]).encode())
    assert 0 == Manifest.read(book).files[f"commitlog/{segment.name}"].used
    segment.write_bytes(whole)
    run, findings = checked(store, since=book)
    assert ([], [f"commitlog/{segment.name}"]) == (findings, changes(run)["grown"])


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "consumequeue/traffic-orders/0/00000000000000000000",
        "index/20261121024958881",
        "config/topics.json.tmp",
    ],
)
def test_gone_meanwhile(
    name: str, store: Path, monkeypatch: pytest.MonkeyPatch, *, is_live: bool
) -> None:
    """What a running broker deletes or renames before it is hashed is no finding; else it is."""
    gone = store / name
    gone.touch()
    monkeypatch.setattr(Ledger, "finish", preceded(gone.unlink, Ledger.finish))
    with ExitStack() as held:
        if is_live:
            held.enter_context(held_by_another(store))
        run, findings = checked(store)
    unread = [] if is_live else [("FS-READ", name)]
    assert unread == [(finding.code, finding.path) for finding in findings]
    assert is_live is (name not in manifest_of(run).files)


def test_replaced_meanwhile(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration that a running broker replaces is not there for a moment."""
    path, away = store / "config" / "topics.json", store.parent / "away"
    monkeypatch.setattr(Ledger, "finish", preceded(partial(path.rename, away), Ledger.finish))

    def bring_back(_: float) -> None:
        with suppress(FileNotFoundError):  # a thread of another test sleeps, too
            away.rename(path)

    monkeypatch.setattr(time, "sleep", bring_back)
    with held_by_another(store):
        run, findings = checked(store)
    assert [] == findings
    assert manifest_of(run).files["config/topics.json"].sha256


def test_gone_while_it_is_replaced(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not there for longer, it is named as not checked, once, and is no finding."""
    path = store / "config" / "topics.json"
    monkeypatch.setattr(Ledger, "finish", preceded(path.unlink, Ledger.finish))
    monkeypatch.setattr(manifest_ledger, "PAUSES", (0.0,) * 2)
    with held_by_another(store):
        run, findings = checked(store)
    assert [] == findings
    assert [("config/topics.json", BEING_WRITTEN)] == run.summary.account.left_out
    assert "" == manifest_of(run).files["config/topics.json"].sha256


def test_new_and_gone(store: Path, book: Path) -> None:
    """Files that came and files that went are named."""
    (store / "abort").touch()
    (store / "config" / "topics.json.bak").unlink(missing_ok=True)
    (store / "config" / "delayOffset.json").unlink()
    run, _ = checked(store, since=book)
    assert run.ledger is not None
    said = "\n".join(run.ledger.sentences())
    assert "new since" in said
    assert "abort" in said
    assert "config/delayOffset.json" in changes(run)["gone"]


def test_unproven(store: Path, book: Path) -> None:
    """What was found wrong, or was not looked at, is looked at again."""
    proven = Manifest.read(book)
    for weaker in (proven._replace(is_proven=False), proven._replace(level=CheckLevel.QUICK)):
        book.write_bytes(weaker.encode())
        run, _ = checked(store, since=book)
        assert "taken over" not in changes(run)
        assert 1383 == run.summary.account.records
    for narrowed in (
        {"only": frozenset({"commitlog"})},
        {"topic": "x"},
        {"level": CheckLevel.QUICK},
    ):
        assert not manifest_of(checked(store, **narrowed)[0]).is_proven


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"[" * 100_000, b"\xff", b'{"format": "rmqtool manifest 1", "files": 1}'],
    ids=["empty", "object", "list", "deep", "bytes", "half"],
)
def test_no_manifest(content: bytes, store: Path) -> None:
    """What is no manifest is refused in one sentence, before the store is read."""
    path = store.parent / "book"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is not a manifest"):
        validate(ValidateOptions(store, since=path))


FILES = st.builds(
    ManifestFile,
    path=st.text(max_size=9),
    kind=st.just("commitlog"),
    size=st.integers(0, 2**63 - 1),
    mtime_ns=st.integers(-(2**63), 2**63 - 1),
    inode=st.integers(0, 2**64 - 1),
    used=st.integers(0, 2**63 - 1),
    used_sha256=st.text("0123456789abcdef", max_size=64),
    sha256=st.text("0123456789abcdef", max_size=64),
    records=st.none() | st.integers(0, 2**63 - 1),
    sealed=st.booleans(),
)


@given(st.lists(FILES, max_size=3, unique_by=lambda one: one.path), st.sampled_from(CheckLevel))
def test_round_trip(files: list[ManifestFile], level: CheckLevel) -> None:
    """What is written is read again as it was, and is JSON."""
    made = Manifest(
        "/s", level, is_proven=True, log_end=7, files={file.path: file for file in files}
    )
    assert made == Manifest.decode(made.encode())
    assert "rmqtool manifest 2" == json.loads(made.encode())["format"]


@given(
    st.lists(
        st.tuples(st.sampled_from([b"\0", b"\1", b"\2\0"]), st.sampled_from([1, 999, 1 << 20])),
        max_size=5,
    ),
    st.integers(0, 2),
)
def test_digest(runs: list[tuple[bytes, int]], cut: int) -> None:
    """Only what lies before the last byte that is not zero is hashed, at the mark as at the end."""
    path = Path(os.environ["PYTEST_DIGEST"])
    raw = b"".join(piece * count for piece, count in runs)
    path.write_bytes(raw)
    earlier = b"".join(piece * count for piece, count in runs[:cut]).rstrip(b"\0")
    found = digest(DigestTask(Place.of(path), len(earlier), is_whole=True))
    used = raw.rstrip(b"\0")
    assert (len(used), hashlib.sha256(used).hexdigest()) == (found.used, found.used_sha256)
    assert hashlib.sha256(raw).hexdigest() == found.sha256
    if earlier:
        assert hashlib.sha256(earlier).hexdigest() == found.until_mark


@pytest.fixture(autouse=True)
def _digest_file(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give `test_digest` a file: hypothesis runs it many times for one fixture."""
    monkeypatch.setenv("PYTEST_DIGEST", str(tmp_path_factory.mktemp("digest") / "file"))


def test_blank_of_a_sealed_file(store: Path, book: Path) -> None:
    """A byte that changes in the zeros at the end of a sealed segment is a change."""
    sealed = next(file for file in Manifest.read(book).files.values() if file.sealed)
    assert sealed.used < sealed.size
    before = hashlib.sha256((store / sealed.path).read_bytes()).hexdigest()
    with (store / sealed.path).open("r+b") as file:
        file.seek(sealed.size - 1)
        file.write(b"\1")
    run, findings = checked(store, since=book)
    assert [sealed.path] == changes(run)["rewritten"]
    (changed,) = [finding for finding in findings if finding.code.name == "FS-CHANGED"]
    assert changed.message.startswith("the blank of the sealed file changed")
    assert f"sha256 {before}" == changed.expected
    after = hashlib.sha256((store / sealed.path).read_bytes()).hexdigest()
    assert f"sha256 {after}" == changed.actual
    assert changes(run).keys() <= {"rewritten", "taken over", "the same"}


def test_earlier_format(store: Path, book: Path) -> None:
    """A manifest of an earlier version is compared by the bytes that it hashed."""
    document = json.loads(book.read_bytes())
    document["format"] = "rmqtool manifest 1"
    for file in document["files"]:
        file["sha256"] = file.pop("used_sha256")
    book.write_text(json.dumps(document))
    run, _ = checked(store, since=book)
    assert changes(run).keys() <= {"the same", "taken over"}


def test_made(tmp_path: Path, store: Path) -> None:
    """A manifest says who made it, where, when and by which command; a report agrees in hashes."""
    book, page = tmp_path / "book.json", tmp_path / "page.html"
    assert main(["validate", str(store), "--manifest", str(book), "--quiet"]) in {0, 1}
    made = Manifest.read(book).made
    assert made is not None
    assert made.version.startswith(f"rmqtool {__version__}, Python ")
    assert abs(made.clock_ms - time.time() * 1000) < 600_000
    assert "" not in {made.command, made.user, made.host}
    assert main(["report", str(store), "--hashes", "--output", str(page), "--quiet"]) in {0, 1}
    words = page.read_text()
    for file in Manifest.read(book).files.values():
        assert file.sha256 in words
