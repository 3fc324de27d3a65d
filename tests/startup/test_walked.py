"""What recovery has walked over counts as what is read: message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from rmqtool.startup import predict, walk
from rmqtool.startup.census import SegmentCensus
from rmqtool.startup.files import ModelFile
from rmqtool.startup.losses import LossCount
from rmqtool.startup.records import Checked, RecordFailure
from rmqtool.startup.walked import WalkedLog
from rmqtool.store.tree import open_store
from tests.bench.store_builder import Builder, Spec
from tests.startup.test_kernels_agree import hurt
from tests.stores import broker_conf, fixture_names, fixture_store

Count = Callable[[Sequence[ModelFile]], Iterator[SegmentCensus]]
END = Checked(0, 0, stop=RecordFailure.NOTHING_LEFT)
SPEC = Spec(total_bytes=3 << 18, segment_bytes=1 << 18, topics=2, queues=3)


def messages(census: SegmentCensus) -> tuple[object, ...]:
    """Give what is known of each message of a file; numbers of topics do not matter."""
    columns = (
        *(census.positions, census.sizes, census.store_timestamps),
        *(census.queue_ids, census.queue_offsets, census.messages),
    )
    topics = [census.names[number] for number in census.topics]
    return census.path, census.start, np.stack(columns).tolist(), topics


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hold what was kept against what is read; give the paths of the files that were kept."""
    paths: list[str] = []
    counted = LossCount._counted  # noqa: SLF001 - what is asked of it is what is tested

    def both(self: LossCount, count: Count, files: list[ModelFile]) -> Iterator[SegmentCensus]:
        assert self.walked is not None
        paths.extend(file.path for file in files if self.walked.has(file))
        for walked, read in zip(counted(self, count, files), count(files), strict=True):
            assert messages(walked) == messages(read)
            yield walked

    monkeypatch.setattr(LossCount, "_counted", both)
    return paths


@pytest.fixture(params=[True, False], ids=["kernels", "plain"])
def by_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let kernels read all files, or none."""
    is_by_kernels = bool(request.param)
    monkeypatch.setattr(walk, "KERNELS_FROM", 0 if is_by_kernels else 1 << 62)
    return is_by_kernels


@pytest.mark.parametrize("name", [name for name in fixture_names() if "dledger" not in name])
def test_real_stores(name: str, tmp_path: Path, kept: list[str], *, by_kernels: bool) -> None:
    """The file that recovery ends in is kept; kernels do not tell the sizes of inner batches."""
    prediction = predict(open_store(fixture_store(name, tmp_path), broker_conf(name)))
    recovered = prediction.recovered
    assert recovered is not None
    is_told = "batch-queue" not in name or not by_kernels
    assert (recovered.end_path in kept) is bool(recovered.first_path and is_told)


@pytest.mark.usefixtures("by_kernels")
@pytest.mark.parametrize("seed", range(20))
def test_damaged(seed: int, tmp_path: Path, kept: list[str]) -> None:
    """A file with damage inside is read again, and those before it are not."""
    root = tmp_path / "store"
    Builder(root, SPEC).build()
    (root / "abort").touch()
    logs = sorted((root / "commitlog").iterdir())
    hurt(logs[seed % len(logs)], seed)
    recovered = predict(open_store(root), "4.9.3").recovered
    assert recovered is not None
    assert {f"commitlog/{log.name}" for log in logs[: seed % len(logs)]} >= {*kept}


def test_a_large_log_keeps_its_newest_file() -> None:
    """Of others the messages are not held."""
    files = [ModelFile(f"commitlog/{number}", number, 1) for number in range(2)]
    for keeps_all, expected in ((True, [True, True]), (False, [False, True])):
        log = WalkedLog(keeps_all)
        for file in files:
            with file.open() as reader:
                assert [END] == [*log.keeping(iter([END]), file, reader, 0)]
        assert expected == [log.has(file) for file in files]
