"""Run the same commands with two versions of the program, and list every answer that differs.

    python -m tests.same record FILE [--tree DIR] [--every N]
    python -m tests.same compare BEFORE AFTER [--new FIELD ...]
    python -m tests.same against REVISION [--every N]

`record` runs what `COMMANDS` lists on every fixture and on one store for each named damage, RocksDB
databases among them, with the package that lies in `--tree`, and keeps exit codes, rows, sentences,
and digests of what was written.
`against` takes a checkout of a git revision for the first half. The exit code is 1 when an answer
differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from rmqtool.machine.announce import COMPILING
from tests.damage import DAMAGES, Damage, NotApplicable
from tests.damage_rocksdb import DAMAGES as ROCKSDB_DAMAGES
from tests.rocksdb import rows_of
from tests.stores import FIXTURES as DIRECTORY
from tests.stores import broker_conf, fixture_names, fixture_store

ROOT: Final = Path(__file__).parents[1]
ROWS: Final = ("--format", "jsonl")
COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("validate", "STORE", "--level", "deep", *ROWS),
    ("validate", "STORE", "--level", "full", "CONF", *ROWS),
    ("info", "STORE", *ROWS),
    ("startup", "STORE", "RELEASE", *ROWS),
    ("startup", "STORE", "RELEASE", "CONF", *ROWS),
    ("repair", "STORE", *ROWS),
    ("repair", "STORE", "CONF", "--output", "OUTPUT", *ROWS),
    ("rebuild", "STORE", "--check", *ROWS),
    ("query", "STORE", "--topic", "traffic-orders", "--queue", "1", "--queue-offset", "3", *ROWS),
    ("query", "STORE", "--key", "ORDER-1", *ROWS),
    ("doctor", "STORE", "CONF", *ROWS),
    ("diff", "STORE", "SOUND", *ROWS),
    ("extract", "STORE", "--output", "OUTPUT.jsonl"),
    ("export", "STORE", "--output", "OUTPUT", "--format", "csv"),
    ("export", "STORE", "--table", "findings", "--output", "OUTPUT", "--format", "jsonl"),
    ("rebuild-log", "STORE", "CONF", "--output", "OUTPUT", *ROWS),
    ("rebuild-log", "STORE", "CONF", "--positions", "keep", "--output", "OUTPUT", *ROWS),
    ("dump", "STORE", *ROWS),
)
SOUND: Final[tuple[tuple[str, ...], ...]] = (
    ("dump", "STORE", "CONF", *ROWS),
    ("dump", "STORE", "--as", "all", *ROWS),
    ("rebuild", "STORE", "CONF", "--output", "OUTPUT", *ROWS),
    ("query", "STORE", "--time", "2026-11-21T03:00:00Z", *ROWS),
)
# A segment of 1 GiB for each command takes longer than all others.
FIXTURES: Final = [
    path.name for path in sorted(DIRECTORY.glob("rocketmq-*")) if not path.name.endswith("geometry")
]
SOUND_ROOTS: Final[list[Path]] = []
FREE: Final = re.compile(r'"free":\d+')  # bytes of the disk
HOURS: Final = re.compile(r"fileReservedTime=\d+")  # counted from the last change of a file
COMPILED: Final = re.compile(rf" \(TIME\)|rmqtool: {COMPILING}\n")  # which run had to is chance
TIMES: Final = re.compile(r"\d[\d,]*\.\d+ (s|[kMG]?B/s)\b|rmqtool-undo-[\w.-]+|/tmp/tmp\w+")
WHOLE: Final = 200  # rows that are kept as they are; of more, a digest
Row = dict[str, Any]


def stores(directory: Path, every: int) -> Iterator[tuple[str, str, Path, bool]]:
    """Yield name, fixture, root of a fresh copy, and whether it is as the broker left it."""
    for name in FIXTURES:
        with tempfile.TemporaryDirectory(dir=directory) as into:
            yield name, name, fixture_store(name, Path(into)), True
    for harm in list(ROCKSDB_DAMAGES.values())[::every]:
        with tempfile.TemporaryDirectory(dir=directory) as into:
            root = fixture_store(harm.fixture, Path(into))
            harm.inflict(root)
            yield f"{harm.name} in {harm.fixture}", harm.fixture, root, False
    for damage in list(DAMAGES.values())[::every]:
        with tempfile.TemporaryDirectory(dir=directory) as into:
            if found := _damaged(damage, Path(into)):
                yield f"{damage.name} in {found[0]}", *found, False


def _damaged(damage: Damage, into: Path) -> tuple[str, Path] | None:
    """Damage the first fixture that has what is damaged."""
    names = [name for name in fixture_names() if (damage.fixture or "traffic") in name]
    first = sum(map(ord, damage.name)) % len(names)
    for name in names[first:] + names[:first]:
        place = into / name
        place.mkdir()
        root = fixture_store(name, place)
        with contextlib.suppress(NotApplicable):
            if damage.applies_to(root):
                damage.inflict(root)
                return name, root
    return None


def record(file: Path, every: int) -> None:
    """Write a JSON line for each command on each store."""
    with tempfile.TemporaryDirectory() as directory, file.open("w", encoding="utf-8") as lines:
        for name, fixture, root, is_sound in stores(Path(directory), every):
            for number, command in enumerate((*COMMANDS, *(SOUND if is_sound else ()))):
                output = root.parent / f"output-{number}"
                given = _given(command, root, fixture, output)
                line = {"store": name, "command": " ".join(command), **_answer(given, root, output)}
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
            lines.flush()


def _given(command: Iterable[str], root: Path, fixture: str, output: Path) -> list[str]:
    conf = broker_conf(fixture)
    words = {
        "STORE": [str(root)],
        "CONF": ["--broker-conf", str(conf)] if conf.is_file() else [],
        "RELEASE": ["--broker-version", fixture.split("-")[1]],
        "OUTPUT": [str(output)],
        "OUTPUT.jsonl": [f"{output}.jsonl"],
        "SOUND": [str(_sound(fixture))],
    }
    return [word for part in command for word in words.get(part, [part])]


@cache
def _sound(fixture: str) -> Path:
    """Give the fixture as it is, once: what a damaged store is compared with."""
    into = tempfile.mkdtemp(dir=tempfile.gettempdir())
    SOUND_ROOTS.append(fixture_store(fixture, Path(into)))
    return SOUND_ROOTS[-1]


def _answer(given: list[str], root: Path, output: Path) -> Row:
    from rmqtool.cli.main import main  # in here: `--tree` says which

    kept = root.parent / "out", root.parent / "err"
    with (
        kept[0].open("w", encoding="utf-8", errors="surrogateescape") as out,
        kept[1].open("w", encoding="utf-8", errors="surrogateescape") as err,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(given)
        except SystemExit as error:
            code = int(error.code or 0)
    text, said = (path.read_text(encoding="utf-8", errors="surrogateescape") for path in kept)
    for place in (str(root.parent), *(path.parent.as_posix() for path in SOUND_ROOTS)):
        text, said = text.replace(place, "PLACE"), said.replace(place, "PLACE")
    text = HOURS.sub("fileReservedTime=N", FREE.sub('"free":0', text))
    text = text.replace(ROOT.as_posix(), "TREE")
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    answer: Row = {
        "code": code,
        "rows": len(rows),
        "digest": _digest(text),
    }
    if len(rows) <= WHOLE:
        answer["content"] = rows
    answer["said"] = COMPILED.sub("", TIMES.sub("TIME", said))[-2000:]
    if output.is_dir():
        answer["tree"] = _tree(output, str(root.parent))
    single = output.with_suffix(".jsonl")
    if single.is_file():
        answer["tree"] = {single.name: _bytes_digest(single.read_bytes(), str(root.parent))}
    return answer


def _tree(directory: Path, place: str) -> dict[str, str]:
    """Digest each file, and the rows of each database: its files are others each time."""
    databases = {path.parent for path in directory.rglob("CURRENT")}
    found = {
        str(path.relative_to(directory)): _bytes_digest(path.read_bytes(), place)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith("rmqtool") and path.parent not in databases
    }
    for database in databases:
        name = str(database.relative_to(directory))
        rows = rows_of(database, name)
        found[name] = _digest(repr(sorted(rows.items())))
    return found


def _bytes_digest(raw: bytes, place: str) -> str:
    return hashlib.sha256(raw.replace(place.encode(), b"PLACE")).hexdigest()[:16]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def compare(before: Path, after: Path, new: frozenset[str]) -> Iterator[str]:
    """Yield a text for each answer that differs, but for fields that are new."""
    old, now = _lines(before), _lines(after)
    for key in old.keys() | now.keys():
        if key not in old or key not in now:
            yield f"{' | '.join(key)}: only {'after' if key in now else 'before'}"
        elif said := list(_differences(old[key], now[key], new)):
            yield "\n    ".join([" | ".join(key), *said])


def _lines(file: Path) -> dict[tuple[str, str], Row]:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {(row["store"], row["command"]): row for row in rows}


def _differences(old: Row, now: Row, new: frozenset[str]) -> Iterator[str]:
    if old["code"] != now["code"]:
        yield f"exit code {old['code']} -> {now['code']} {now['said']}"
    elif old["said"] != now["said"]:
        yield f"- {old['said']}"
        yield f"+ {now['said']}"
    if "content" in old and "content" in now:
        rows = [Counter(_plain(row, new) for row in one["content"]) for one in (old, now)]
        yield from (f"- {row}" for row in (rows[0] - rows[1]).elements())
        yield from (f"+ {row}" for row in (rows[1] - rows[0]).elements())
    elif old["digest"] != now["digest"]:
        yield f"rows {old['rows']} -> {now['rows']}, digest {old['digest']} -> {now['digest']}"
    files = [set(one.get("tree", {}).items()) for one in (old, now)]
    yield from (f"file {name}" for name in sorted({name for name, _ in files[0] ^ files[1]}))


def _plain(row: Row, new: frozenset[str]) -> str:
    return json.dumps({key: value for key, value in row.items() if key not in new}, sort_keys=True)


def against(revision: str, every: int) -> Iterator[str]:
    """Record with a revision and with this tree, and compare."""
    with tempfile.TemporaryDirectory() as directory:
        tree, files = Path(directory, "tree"), [Path(directory, name) for name in ("old", "now")]
        git = ["git", "-C", str(ROOT)]
        subprocess.run([*git, "worktree", "add", "-q", str(tree), revision], check=True)  # noqa: S603
        try:
            for place, file in zip((tree, ROOT), files, strict=True):
                words = ["record", str(file), "--tree", str(place), "--every", str(every)]
                subprocess.run([sys.executable, "-m", "tests.same", *words], cwd=ROOT, check=True)  # noqa: S603
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)  # noqa: S603
        yield from compare(files[0], files[1], frozenset())


def _import_from(tree: Path) -> None:
    """Let whatever is imported from now on be the package of a tree.

    Raises:
        SystemExit: it is another one: then all answers would be the same, and say nothing.
    """
    sys.path[:] = [str(tree), *(one for one in sys.path if Path(one or ".").resolve() != ROOT)]
    for name in [*sys.modules]:  # what damages stores has loaded this tree's own
        if name.partition(".")[0] == "rmqtool":
            del sys.modules[name]
    import rmqtool

    if not Path(rmqtool.__file__).resolve().is_relative_to(tree.resolve()):
        sys.exit(f"{rmqtool.__file__} is not the package of {tree}")


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.same")
    parser.add_argument("task", choices=["record", "compare", "against"])
    parser.add_argument("given", nargs="+")
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th damage only")
    parser.add_argument("--new", nargs="*", default=[], metavar="FIELD")
    asked = parser.parse_args()
    if asked.task == "record":
        _import_from(asked.tree)
        record(Path(asked.given[0]), asked.every)
        return 0
    found = (
        compare(Path(asked.given[0]), Path(asked.given[1]), frozenset(asked.new))
        if asked.task == "compare"
        else against(asked.given[0], asked.every)
    )
    count = 0
    for count, text in enumerate(found, 1):  # noqa: B007  (the last one counts)
        sys.stdout.write(f"{text}\n")
    sys.stdout.write(f"{count} answers differ\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
