"""A directory that many processes write: each file is there completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqtool.errors import WriteFailed
from rmqtool.writing.dataset import STAGING, Dataset
from tests.s3_server import s3_server


@pytest.fixture(params=["local", "s3"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    """An empty directory, on the disk and in a bucket."""
    if request.param == "local":
        made = Dataset.of(str(tmp_path / "new"))
    else:
        beside = tmp_path / "beside"
        beside.mkdir()
        (beside / "x").write_bytes(b"")
        s3_server().put(beside, f"dataset/{tmp_path.name}-beside")
        made = Dataset.of(f"s3://evidence/dataset/{tmp_path.name}")
    made.make()
    return made


def test_files(dataset: Dataset) -> None:
    """A file that was written is there, below as many directories as its name has."""
    dataset.write("a/b=1/c", b"first")
    dataset.write("d", b"second")
    dataset.write("_e/f", b"ours")
    assert b"first" == dataset.read("a/b=1/c", 100)
    assert None is dataset.read("a/b=1/none", 100)
    assert ["a/b=1/c", "d"] == list(dataset.files())
    dataset.remove("a")
    dataset.remove("none")
    assert ["d"] == list(dataset.files())


def test_replaced(dataset: Dataset) -> None:
    """A file that is written again is replaced at once; one that is discarded changes nothing."""
    dataset.write("a", b"first")
    file = dataset.new_file("a")
    file.stream.write(b"second")
    assert b"first" == dataset.read("a", 100)
    file.discard()
    assert b"first" == dataset.read("a", 100)
    dataset.write("a", b"third")
    assert b"third" == dataset.read("a", 100)
    assert file.stream.closed


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "", "a//b", ".", "a\0b"])
def test_names_do_not_lead_out(dataset: Dataset, name: str) -> None:
    """A name that would lead out of the directory, or nowhere, is refused."""
    with pytest.raises(WriteFailed, match="cannot be the name of a file"):
        dataset.new_file(name)


def test_refused(tmp_path: Path) -> None:
    """What the system refuses is an error with the path."""
    with pytest.raises(WriteFailed, match="none"):
        Dataset.of(str(tmp_path / "none" / "new")).make()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteFailed):
        Dataset.of(str(tmp_path / "file")).write("a", b"")


def test_nothing_else(tmp_path: Path) -> None:
    """Besides the files there is the directory in which they were made, and it is empty."""
    dataset = Dataset.of(str(tmp_path / "new"))
    dataset.make()
    dataset.write("a", b"")
    assert {"a", STAGING} == set(os.listdir(tmp_path / "new"))  # noqa: PTH208 - names only
    assert [] == list((tmp_path / "new" / STAGING).iterdir())
