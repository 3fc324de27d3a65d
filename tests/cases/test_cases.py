"""Each directory is a public thread: its number, the state, what is said, what is true afterwards.

`case.toml` of a directory says all of it:

    thread      the thread of apache/rocketmq that describes the state
    story       what the user saw, in a sentence
    fixture     the store that the state is inflicted on
    release     the broker that is to start; by default the one that wrote the store
    conf        lines that come last in broker.conf; without it no broker.conf is given
    [[state]]   steps: see `DEEDS`; `path` is a pattern, `which` one of its files by order
    [says]      findings above a note, whether a broker starts, and messages that startup counts
    [after]     the same once `repair` has run, with the `options` given; what its plan has `left`
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool import repair
from rmqtool.findings.catalogue import Severity
from rmqtool.startup import Prediction, predict
from rmqtool.store.tree import open_store
from tests.check.validation import run
from tests.stores import broker_conf, fixture_store, manifest

HERE: Final = Path(__file__).parent
CASES: Final = sorted(path.parent.name for path in HERE.glob("*/case.toml"))
THREAD: Final = "https://github.com/apache/rocketmq/"
Step = Mapping[str, Any]


def _write(path: Path, step: Step) -> None:
    data = bytes.fromhex(step["hex"]) if "hex" in step else str(step.get("text", "")).encode()
    raw = bytearray(path.read_bytes() if path.exists() and "position" in step else b"")
    position = step.get("position", 0)
    raw[position : position + len(data)] = data
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)


def _append(path: Path, step: Step) -> None:
    path.write_bytes(path.read_bytes() + str(step["text"]).encode())


def _zero(path: Path, step: Step) -> None:
    raw = path.read_bytes()
    start = int(len(raw.rstrip(b"\0")) * step["from"]) if "from" in step else step["position"]
    end = start + step["length"] if "length" in step else len(raw)
    path.write_bytes(raw[:start] + bytes(end - start) + raw[end:])


def _recycle(path: Path, step: Step) -> None:
    """Put what another file begins with past the end of what is used."""
    raw, old = path.read_bytes(), min(path.parent.iterdir()).read_bytes()
    used = len(raw.rstrip(b"\0"))
    path.write_bytes(raw[:used] + old[: step["length"]] + raw[used + step["length"] :])


def _rename(path: Path, step: Step) -> None:
    path.rename(path.parent / step["to"])


def _remove(path: Path, _: Step) -> None:
    if path.is_dir():
        for one in sorted(path.rglob("*"), reverse=True):
            one.rmdir() if one.is_dir() else one.unlink()
        path.rmdir()
    else:
        path.unlink()


DEEDS: Final[Mapping[str, Callable[[Path, Step], None]]] = {
    "write": _write,
    "append": _append,
    "zero": _zero,
    "truncate": lambda path, step: os.truncate(path, step["size"]),
    "remove": _remove,
    "rename": _rename,
    "recycle": _recycle,
}


def inflict(store: Path, step: Step) -> None:
    """Do one step of a state."""
    paths = sorted(store.glob(step["path"]))
    if step["do"] == "write" and not paths:
        paths = [store / step["path"]]
    assert paths, step
    for path in [paths[step["which"]]] if "which" in step else paths:
        DEEDS[step["do"]](path, step)


def told(prediction: Prediction) -> dict[str, object]:
    """Give what a prediction counts, as far as it is anything."""
    counts = {
        "lost": prediction.lost.messages,
        "unreachable": prediction.unreachable,
        "missing": prediction.missing.messages,
        "timers_lost": prediction.timers_lost,
    }
    return {"starts": prediction.starts, **counts}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, tmp_path: Path) -> None:
    """What is said, and what a repair makes of it; a second repair finds nothing to do."""
    case = tomllib.loads((HERE / name / "case.toml").read_text(encoding="utf-8"))
    assert case["thread"].startswith(THREAD)
    assert case["thread"].endswith(f"/{name.partition('-')[0]}")
    assert case["story"]
    store = fixture_store(case["fixture"], tmp_path)
    release = case.get("release", manifest(case["fixture"])["version"])
    conf = None
    if "conf" in case:
        conf = tmp_path / "broker.conf"
        text = broker_conf(case["fixture"]).read_text() + "\n" + case["conf"]
        conf.write_text(text.replace("STORE", str(store)))
    for step in case["state"]:
        inflict(store, step)

    def seen() -> dict[str, object]:
        findings, _, _ = run(store, "full", conf, release)
        codes = sorted(
            {str(finding.code) for finding in findings if finding.severity is not Severity.NOTE}
        )
        return {"findings": codes, **told(predict(open_store(store, conf), release))}

    given = {"broker_version": release, "broker_conf": conf and str(conf)}
    options = case["after"].pop("options", {})
    assert {"findings", "starts"} <= case["says"].keys() & case["after"].keys()
    said = seen()
    assert case["says"] == {key: said[key] for key in case["says"]}
    plan = repair.plan(store, **given, **options)
    repair.apply(plan, in_place=True)
    said = {**seen(), "left": sorted({left.code for left in plan.left})}
    assert case["after"] == {key: said[key] for key in case["after"]}
    assert [] == repair.plan(store, **given, **options).edits
