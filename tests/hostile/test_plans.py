"""A plan given to `--apply` is made for one store, and leads nowhere else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.stranger import SECRET, SEGMENT, Scene, look


def plan_of(stage: Scene) -> tuple[Path, dict[str, Any]]:
    """Let the user save a plan; give its file and its content."""
    path = stage.work / "plan.json"
    answer = stage.run("repair", stage.store, "--plan", path)
    assert 1 == answer.code, answer
    document: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return path, document


@pytest.mark.parametrize("action", ["write", "length", "replace", "remove", "create"])
@pytest.mark.parametrize("name", ["{}/secret", "{}/new", "../outside/secret", "link/secret"])
def test_leads_out(stage: Scene, name: str, action: str) -> None:
    """An edit whose path leads out of the store is refused, whatever it does; nothing is kept."""
    (stage.store / "link").symlink_to("../outside")
    stage.yield_to_stranger()
    path, document = plan_of(stage)
    content = next(one["content"] for one in document["edits"] if one["content"])
    edit = next(one for one in document["edits"] if one["content"] is content)
    edit |= {"action": action, "path": name.format(stage.outside), "position": 0}
    is_there = action != "create" and not name.endswith("new")
    edit["length"] = len(SECRET) if is_there else 0
    edit["old"] = hashlib.sha256(SECRET).hexdigest() if is_there else ""
    document["edits"] = [edit]
    path.write_text(json.dumps(document))
    before, store = stage.seen(), look(stage.store)
    for how in (["--in-place", "--yes"], ["--output", stage.work / "copy"]):
        kept = stage.work / "kept"
        answer = stage.run("repair", stage.store, "--apply", path, *how, "--quarantine", kept)
        assert 2 == answer.code, answer
        assert before == stage.seen()
        assert not any(SECRET in path.read_bytes() for path in kept.rglob("*") if path.is_file())
        assert not (stage.work / "copy").exists()
    (store.pop("."), store.pop("lock"))
    assert store.items() <= look(stage.store).items()


def test_elsewhere(stage: Scene) -> None:
    """What the configuration on the command line places elsewhere is repaired there, and undone."""
    (stage.store / "commitlog").rename(stage.store / "gone")
    conf = stage.work / "broker.conf"
    conf.write_text(f"storePathCommitLog={stage.outside}/commitlog\n")
    with (stage.outside / SEGMENT).open("r+b") as file:
        file.seek(30_000)
        file.write(b"damage" * 20)
    stage.yield_to_stranger()
    before = (stage.outside / SEGMENT).read_bytes()
    command = ("repair", stage.store, "--broker-conf", conf)
    assert stage.run(*command, "--in-place", "--yes").code in {0, 1}
    assert before != (stage.outside / SEGMENT).read_bytes()
    assert 2 == stage.run("repair", stage.store, "--undo").code
    assert 0 == stage.run(*command, "--undo").code
    assert before == (stage.outside / SEGMENT).read_bytes()
