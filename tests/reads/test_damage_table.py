"""What `validate` calls damage, no reader of a table calls fine, whichever engine asks it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.reads.plan import tasks
from rmqtool.reads.readers import batches
from tests.damaged_reads import TABLES, Damaged, damaged_stores, judge

CODE: Final = "code"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, is_whole: bool) -> Damaged:
    """Give damaged stores."""
    return damaged_stores(tmp_path_factory, is_whole=is_whole)


@pytest.mark.every_case
@pytest.mark.parametrize("table", TABLES)
def test_read(stores: Damaged, table: TableName) -> None:
    """Each damage in the files of a table is a row with a code."""

    def codes_of(store: Path) -> set[str]:
        source = SourceOptions(str(store), table, (CODE,))
        read = (batch for task in tasks(source) for batch in batches(task, source, (CODE,)))
        return {code for batch in read for code in batch.column(CODE).to_pylist() if code}

    judge(stores, table, codes_of)
