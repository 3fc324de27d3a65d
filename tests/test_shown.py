"""What users and damage campaigns found, by number, and the test that shows each to be mended.

A are stores that were called fine and are not, B repairs that lost or did not settle, C wrong
predictions, D false alarms, E what users asked for. Run the tests of one number with

    python -m pytest $(python -m tests.test_shown B18)

A text after the name of a test is a part of the id of its case. What has no test says so.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.damage import DAMAGES
from tests.repair.lossy_faults import FAULTS

ROOT: Final = Path(__file__).parents[1]
LOSSY: Final = "tests/repair/test_lossy_faults.py::test_repaired"
JUDGED: Final = "tests/repair/broker/test_lossy_faults.py::test_delivered"  # by real stores
CASE: Final = "tests/cases/test_cases.py::test_case"
DAMAGE: Final = "tests/check/test_damage.py::test_damage"

SHOWN: Final[dict[str, tuple[str, ...]]] = {
    "A1 no commitlog": (
        "tests/startup/test_losses.py::test_no_log",
        "tests/query/test_damage.py::test_no_log",
        "tests/check/test_broker_conf.py::test_path_of_this_store",
        f"{DAMAGE} remove-all-segments",
        f"{CASE} 1231-log-at-another-path",
    ),
    "A2 a segment is missing": (
        "tests/startup/test_losses.py::test_missing_segment",
        "tests/tables/test_messages.py::test_missing_segment",
        "tests/report/test_page.py::test_gap_is_seen",
        "tests/query/test_lost.py::test_facts",
        f"{CASE} 2140-segment-missing",
    ),
    "A3 a light queue is deleted": ("tests/check/test_light_queues.py::test_deleted",),
    "A4 broker.conf": (
        "tests/check/test_broker_conf.py::test_keys",
        "tests/check/test_broker_conf.py::test_lengths",
        f"{CASE} 1609-space-after-a-length",
    ),
    "A5 owner and mode": (
        "tests/check/test_access.py::test_left_by_root",
        "tests/check/test_access.py::test_as_user",
    ),
    "A6 the timer wheel": (
        "tests/check/test_timer_wheel.py::test_waiting_timers_without_slots",
        "tests/repair/broker/test_timer_wheel.py::test_wheel",
        f"{CASE} 9735-wheel-lost",
    ),
    "A7 DLedger, epochs, compaction": (
        f"{DAMAGE} dledger-index",
        "tests/check/test_epochs.py::test_places",
        "tests/check/test_compaction.py::test_damage",
    ),
    "A8 both JSON files": (
        "tests/check/test_config.py::test_both_broken",
        "tests/check/test_config.py::test_topic_is_gone",
        "tests/repair/broker/test_configuration.py::test_comes_up",
        f"{CASE} 9705-both-copies-torn",
    ),
    "B9 units into bridges": (
        f"{LOSSY} zeros to the end of a segment, 5.5.0",
        "tests/repair/broker/test_bridge_consumers.py::test_consumers",
    ),
    "B10 new messages reach no queue": (f"{JUDGED} queues without a message",),
    "B11 exchanged and copied commitlog files": (
        "tests/repair/test_misnamed.py::test_exchanged_segments",
        "tests/repair/test_misnamed.py::test_copied_segment",
    ),
    "B12 batch topic forgotten": (f"{JUDGED} batch topic forgotten, and a body",),
    "B13 a queue file cut in a unit": (f"{JUDGED} queue file cut inside of a unit",),
    "B14 fields of a queue's first and last record": (
        f"{LOSSY} bit 0 of topic of the first record of a queue, 5.5.0",
        f"{LOSSY} bit 3 of queue_offset of the last record of a queue, 4.9.3",
        f"{JUDGED} bit 0 of queue_id of the first record of a queue, 4.9.3",
    ),
    "B15 queue files exchanged, of zeros": (
        f"{JUDGED} queue file exchanged with that of an expired queue",
        f"{JUDGED} queue file of zeros",
        f"{LOSSY} topic flipped, unit overwritten",
        "tests/repair/test_misnamed.py::test_topic_beside_a_stale_copy",
    ),
    "B16 odd lengths and names": (
        "tests/repair/test_cut_blank.py::test_put_back",
        "tests/repair/test_odd_files.py::test_byte_appended",
        "tests/repair/test_odd_files.py::test_queue_under_a_wrong_number",
    ),
    "B17 a second repair is empty": (
        f"{LOSSY} zeros in index and log",
        f"{LOSSY} misdirected write in the index",
        f"{LOSSY} last segments gone",
        "tests/repair/test_fuzz.py::test_case",
    ),
    "B18 what cannot be vouched for": (
        "tests/repair/test_unvouched.py::test_torn_properties",
        "tests/repair/test_unvouched.py::test_changed_fields",
        "tests/repair/test_odd_files.py::test_zeros_under_the_same_name",
        "tests/check/test_lengths.py::test_commitlog",
        "tests/hostile/test_counts.py::test_hole_of_terabytes",
        f"{LOSSY} queue offset of a batch, zeros in another batch queue",
        f"{CASE} 10108-empty-queue-file",
    ),
    "C predictions": (
        "tests/startup/test_losses.py::test_old_records_in_files_that_go_are_a_loss",
        "tests/startup/test_losses.py::test_empty_queue_file_is_no_segment",
        "tests/startup/test_records.py::test_size_that_fills_the_heap",
        "tests/startup/test_batch_holes.py::test_judged",
        "tests/startup/test_extensions.py::test_pulls_fail",
        "tests/check/test_queue_tails.py::test_zeroed_from",
    ),
    "D19 retried transactions, one client of several addresses": (
        "tests/check/test_fixtures.py::test_fixture_is_sound redelivered",
        "tests/check/test_manifest.py::test_fixtures redelivered",
    ),
    "D20 delay levels of another configuration": (
        "tests/check/test_fixtures.py::test_fixture_is_sound redelivered",
    ),
    "D21 severities": (f"{DAMAGE} flip-unit-tags",),
    "D2 a stream that loses": (
        "tests/spark/test_stream.py::test_cut",
        "tests/spark/test_stream.py::test_expired",
        "tests/spark/test_stream.py::test_files_taken_away",
    ),
    "E22 a fast start": (
        "tests/repair/test_fast_start.py::test_fast",
        "tests/startup/test_fast_start.py::test_real_store",
    ),
    "E23 configuration from the log": (
        "tests/repair/test_reset_config.py::test_all_torn",
        "tests/repair/test_reset_config.py::test_offset_below",
        "tests/repair/broker/test_configuration.py::test_reset",
    ),
    "E24 IDs, and what is pending": (
        "tests/query/test_decoded.py::test_ids_of_a_broker",
        "tests/tables/test_pending.py::test_delay_levels",
    ),
    "E25 offsets.json of broadcast clients": (
        "tests/query/test_client_offsets.py::test_against_a_store",
        "tests/query/test_client_offsets.py::test_brokers",
        "tests/query/test_client_offsets.py::test_written_by_a_client",
    ),
}
WITHOUT: Final = {
    "B18 a field that still fits": "a sysFlag bit that only says that a batch is committed",
}
NUMBERS: Final = {f"{area}{number}" for area, numbers in (
    ("A", range(1, 9)), ("B", range(9, 19)), ("D", (2, *range(19, 22))), ("E", range(22, 26)),
) for number in numbers} | {"C"}  # fmt: skip


@cache
def _tests_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_number() -> None:
    """Each number has a test, or says that it has none."""
    assert {name.split()[0] for name in (*SHOWN, *WITHOUT)} == NUMBERS


@pytest.mark.parametrize("name", SHOWN)
def test_there(name: str) -> None:
    """The named tests exist, and so do the cases of theirs."""
    cases = {*DAMAGES, *map(str, FAULTS), "redelivered"}
    cases |= {path.parent.name for path in (ROOT / "tests/cases").glob("*/case.toml")}
    for shown in SHOWN[name]:
        node, _, case = shown.partition(" ")
        path, _, test = node.partition("::")
        assert test in _tests_of(path)
        assert not case or case in cases


if __name__ == "__main__":
    asked = sys.argv[1:]
    found = [one for name in SHOWN if name.split()[0] in asked for one in SHOWN[name]]
    sys.stdout.write(" ".join(dict.fromkeys(one.partition(" ")[0] for one in found)) + "\n")
