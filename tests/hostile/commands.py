"""What the command lines of the campaign are about: a damaged store, and what comes with it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from rmqtool.cli.main import main as rmqtool
from tests.hostile.damages import OF_EXTRACTS, damage_some, one_of
from tests.hostile.lines import INSTEAD, STORE
from tests.stores import broker_conf, fixture_directory, fixture_store, sent

SOUND: Final = "rocketmq-5.3.3-crash"
NO_GROUP: Final = "TOOLS_CONSUMER"


class Given(NamedTuple):
    """What the words of a command stand for.

    Attributes:
        store: the damaged one.
        archive: of it.
        image: a file of it, to look for records in.
        sent: a damaged extract.
        work: where a command may write.
        sound: a store that nobody damaged.
        same: the one that was damaged, before it was.
        replica: the same again, with other damage.
        manifest: of `same`; half of them are damaged, too.
        conf: the configuration of its broker, which names the damaged store.
        stores: a file with the names of the damaged stores.
        group: consumers, who have offsets in the store if anybody has.
        topic: one that messages were sent to.
        servers: name servers of a cluster that takes messages.
    """

    store: Path
    archive: Path
    image: Path
    sent: Path
    work: Path
    sound: Path
    same: Path
    replica: Path
    manifest: Path
    conf: Path
    stores: Path
    group: str
    topic: str
    servers: str

    def words_of(self, command: tuple[str, ...]) -> list[str]:
        """Give the words of a command for the store, or for what it names instead."""
        words = [one.format(**self._asdict()) for one in command]
        is_other = STORE in command or bool(INSTEAD & {*command[1:2]})
        return [words[0], *(() if is_other else (str(self.store),)), *words[1:]]


def given(
    store: Path, archive: Path, sound: Path, fixture: str, servers: str, chance: np.random.Generator
) -> Given:
    """Make what else the words stand for.

    Args:
        store: the damaged one.
        archive: of it.
        sound: holds what nobody damages, by the names of fixtures; those are made that are missing.
        fixture: of the store.
        servers: of a cluster.
        chance: decides about damage.
    """
    top, same = store.parent, pristine(sound, fixture)
    for name in ("work", "other"):
        (top / name).mkdir()
    replica = fixture_store(fixture, top / "other")
    damage_some(replica, chance)
    conf, names = top / "broker.conf", top / "list"
    conf.write_text(re.sub("(storePath.*)=store", rf"\1={store}", broker_conf(fixture).read_text()))
    names.write_text(f"{store}\tone\n{replica}\ttwo\n")
    return Given(
        store=store,
        archive=archive,
        image=image_of(store, chance),
        sent=extract_of(same, top, chance),
        work=top / "work",
        sound=pristine(sound, SOUND),
        same=same,
        replica=replica,
        manifest=manifest_of(same, top, chance),
        conf=conf,
        stores=names,
        group=group_of(fixture),
        topic=next((row["topic"] for row in sent(fixture)), "none"),
        servers=servers,
    )


def pristine(directory: Path, fixture: str) -> Path:
    """Give the store of a fixture that nobody damages."""
    if not (directory / fixture).is_dir():
        (directory / fixture).mkdir()
        fixture_store(fixture, directory / fixture)
    return directory / fixture / "store"


@contextmanager
def silence() -> Iterator[None]:
    """Let what this process says go nowhere."""
    kept = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
        for handle in (*kept, nowhere):
            os.close(handle)


def image_of(store: Path, chance: np.random.Generator) -> Path:
    """Give a file of a log, or any other where there is none."""
    files = sorted(path for path in store.rglob("*") if path.is_file() and not path.is_symlink())
    logs = [path for path in files if path.parent.name == "commitlog"]
    return one_of(chance, logs or files or [store / "none"])


def extract_of(sound: Path, top: Path, chance: np.random.Generator) -> Path:
    """Write an extract of a store, or copy the one that is there, and damage it."""
    kept = sound.parent / one_of(chance, ["all.jsonl", "all.rmq"])
    _make(kept, "extract", str(sound), "--output")
    copy = top / f"sent{kept.suffix}"
    shutil.copy(kept, copy)
    one_of(chance, OF_EXTRACTS)(copy, chance)
    return copy


def manifest_of(sound: Path, top: Path, chance: np.random.Generator) -> Path:
    """Write a manifest of a store, or copy the one that is there; damage it or not."""
    kept = sound.parent / "manifest"
    _make(kept, "validate", str(sound), "--manifest")
    copy = top / "manifest"
    shutil.copy(kept, copy)
    if one_of(chance, [False, True]):
        one_of(chance, OF_EXTRACTS)(copy, chance)
    return copy


def _make(output: Path, *words: str) -> None:
    if not output.exists():
        with silence():
            code = rmqtool([*words, str(output), "--quiet"])
        assert code in {0, 1, 3}, code


def group_of(fixture: str) -> str:
    """Give a group that has offsets in a fixture."""
    path = fixture_directory(fixture) / "store/config/consumerOffset.json"
    try:
        queues = json.loads(_quoted(path.read_text()))["offsetTable"]
    except (OSError, ValueError, KeyError):
        queues = {}
    groups = [name.partition("@")[2] for name in queues]
    return groups[0] if groups else NO_GROUP


def _quoted(text: str) -> str:
    """Put the numbers of queues into quotes, which brokers leave out."""
    return re.sub(r"([{,]\s*)(\d+)\s*:", r'\1"\2":', text)
