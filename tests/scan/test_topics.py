"""Topics of a scan keep their numbers and names, however many a log has."""

from __future__ import annotations

import numpy as np
import pytest

from rmqtool.scan.columns import FACTS, TEXT_LENGTH, TEXT_START, TOPICS
from rmqtool.scan.topics import MOST_KNOWN, TopicTable


def test_many() -> None:
    """Each number gives its name, asked for once or again, and one past the last gives none."""
    names = [b"%d" % number for number in range(MOST_KNOWN + 100)]
    lengths = np.array([*map(len, names)])
    table = TopicTable()
    table.text = np.frombuffer(b"".join(names), np.uint8)
    table.facts = np.zeros((len(names), FACTS), np.int64)
    table.facts[:, TEXT_LENGTH] = lengths
    table.facts[:, TEXT_START] = np.cumsum(lengths) - lengths
    table.counts[TOPICS] = len(names)
    for _ in range(2):
        assert names == [table[number] for number in range(len(names))]
    for number in (-1, len(names)):
        with pytest.raises(IndexError):
            table[number]
