"""Of a log, what lies before and after the wanted times is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.reads import plan, trimming
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.tables.selection import Selection
from tests import plain_store
from tests.stores import fixture_store


@pytest.mark.parametrize("is_late", [False, True])
def test_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_late: bool) -> None:
    """Each record of the wanted time is in a task, and less than half of the others are."""
    for module in (plan, trimming):
        monkeypatch.setattr(module, "CLOCK_SLACK_MS", 0)
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    records = plain_store.records(store)
    times = [record.integer("store_timestamp") for record in records]
    middle = sorted(times)[len(times) // 2]
    wanted = (middle, None) if is_late else (None, middle)
    options = SourceOptions(str(store), TableName.MESSAGES, selection=Selection(store_time=wanted))
    parts = [task.part for task in plan.log_tasks(options)]
    read = {
        record.physical_offset
        for record in records
        for part in parts
        if part.begin <= record.physical_offset - part.segment.start < part.end
    }
    pairs = zip(records, times, strict=True)
    of_time = {record.physical_offset for record, at in pairs if (at >= middle) == is_late}
    assert of_time <= read
    assert len(read - of_time) < (len(records) - len(of_time)) // 2
