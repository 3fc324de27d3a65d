"""New trees in a bucket: there completely, or marked as incomplete, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.errors import OutputExists, UsageError, WriteFailed
from rmqtool.rebuild.options import RebuildOptions, Target
from rmqtool.rebuild.work import rebuild
from rmqtool.store.address import place_of
from rmqtool.store.remote import RemotePlace
from rmqtool.writing import remote_output
from rmqtool.writing.remote_output import INCOMPLETE, RemoteOutputDirectory, output_directory
from tests.s3_server import s3_server
from tests.stores import fixture_store

NAME = "rocketmq-5.3.3-lmq"


@pytest.fixture
def target(tmp_path: Path) -> str:
    """A URI below which nothing is."""
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "x").write_bytes(b"")
    s3_server().put(tmp_path / "beside", f"output/{tmp_path.name}-beside")
    return f"s3://evidence/output/{tmp_path.name}"


def names(uri: str) -> list[str]:
    """Give the names right below a URI; none when it is not there."""
    place = place_of(uri)
    return [] if place.stat() is None else [name for name, _ in place.names()]


def test_same_bytes(tmp_path: Path, target: str) -> None:
    """Queues and index rebuilt from a bucket into a bucket are those rebuilt on the disk."""
    store = fixture_store(NAME, tmp_path)
    uri = s3_server().put(store, f"source/{tmp_path.name}")
    rebuild(RebuildOptions(str(store), Target.ALL, output=str(tmp_path / "new")))
    rebuild(RebuildOptions(uri, Target.ALL, output=target))
    written = {
        path.relative_to(tmp_path / "new"): path.read_bytes()
        for path in (tmp_path / "new").rglob("*")
        if path.is_file()
    }
    assert written
    for path, content in written.items():
        assert content == place_of(f"{target}/{path}").read(1 << 30), path
    assert sorted({path.parts[0] for path in written}) == names(target)


def test_nothing_is_replaced(target: str) -> None:
    """What is there already is refused, before anything is read."""
    with output_directory(target) as tree:
        tree.file("a", size=3, pieces=[(0, b"abc")])
    with pytest.raises(OutputExists, match="exists already"), output_directory(target):
        pass
    assert ["a"] == names(target)


def test_error_in_the_block(target: str) -> None:
    """On an error nothing is uploaded, and nothing stays behind on the disk."""
    directory = output_directory(target)
    with pytest.raises(ZeroDivisionError), directory as tree:
        tree.file("a", size=3 // len(names(target)))
    assert [] == names(target)
    assert not Path(directory.top.path).exists()


def test_error_in_the_upload(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When an upload fails, what was uploaded before is removed."""
    upload = remote_output._copy  # noqa: SLF001 - the failing disk of this test

    def fail(source: int | None, place: RemotePlace) -> None:
        if place.name == "b":
            raise OSError(28, "no space")
        upload(source, place)

    monkeypatch.setattr(remote_output, "_copy", fail)
    with pytest.raises(WriteFailed, match=r"b: .*no space"), output_directory(target) as tree:
        _ = [tree.file(name, size=3) for name in ("a", "b")]
    assert [] == names(target)


def test_killed_run(target: str) -> None:
    """What a killed upload left is known by its mark, and refused until it is removed."""
    place = place_of(target).child(INCOMPLETE)
    assert isinstance(place, RemotePlace)
    with place.file_system().open_output_stream(place.path):
        pass
    with pytest.raises(OutputExists, match="killed run"), output_directory(target):
        pass


def test_kind_of_directory(tmp_path: Path, target: str) -> None:
    """A path and a `file:` URI are local, another URI is not; in place is for local stores."""
    with output_directory(f"file://{tmp_path}/new") as tree:
        tree.file("a", size=1)
    assert b"\0" == (tmp_path / "new" / "a").read_bytes()
    assert isinstance(output_directory(target), RemoteOutputDirectory)
    with pytest.raises(UsageError, match="--in-place"):
        RebuildOptions(target, in_place=True)
