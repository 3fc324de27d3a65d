"""`rmqtool dump` gives back what was sent, whatever was sent, and says what it cannot read."""

from __future__ import annotations

import base64
import csv
import errno
import io
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqtool.cli.main import main
from rmqtool.formats import properties as formats
from rmqtool.formats.message import Message, encode, sealed
from tests.cli.run import on_terminal, rmqtool
from tests.evidence import Evidence
from tests.store.built_store import build_store
from tests.stores import fixture_names, fixture_store, sent

Rows = list[dict[str, Any]]
Dump = Callable[..., tuple[int, Rows, str]]
DELAYED = {"delay", "timer", "half"}
CAPPED = {("DELAY", "99")}  # the broker takes its highest level instead


@pytest.fixture
def dump(capfd: pytest.CaptureFixture[str]) -> Dump:
    """Give a function that dumps as JSON lines: exit code, rows, what was said."""

    def run(*arguments: object) -> tuple[int, Rows, str]:
        code = main(["dump", *map(str, arguments), "--format", "jsonl"])
        out, err = capfd.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


@pytest.mark.parametrize("name", fixture_names())
def test_everything_that_was_sent(
    name: str,
    tmp_path: Path,
    evidence: Evidence,
    dump: Dump,
) -> None:
    """For every message that a client sent: its topic, tags, keys, properties, body and ID."""
    store = fixture_store(name, tmp_path)
    if "default-geometry" not in name:
        evidence.keep(store)
    code, records, said = dump(store, "--body", "base64")
    assert (0, "") == (code, said)
    _, inner, _ = dump(store, "--as", "inner-batch", "--body", "base64")
    by_offset = {row["physical_offset"]: row for row in records}
    in_batch = {(row["physical_offset"], row["unique_key"]): row for row in inner}
    first = min(by_offset)
    for line in sent(name):
        offset = line["physical_offset"]
        if line["status"] != "SEND_OK" or offset is None or offset < first:
            continue  # expired
        if line["kind"] == "inner-batch":
            row = in_batch[offset, line["unique_key"]]
        else:
            row = by_offset[offset]
        properties = row["properties"]
        is_moved = line["kind"] in DELAYED
        topic = properties["REAL_TOPIC"] if is_moved else row["topic"]
        assert line["topic"] == topic
        assert (line["tags"], line["keys"]) == (row["tags"], row["keys"])
        assert set(line["properties"].items()) - CAPPED <= stored_properties(row)
        assert line["body"] == base64.b64decode(row["body_b64"])
        assert line["offset_message_id"] == row["message_id"]
        assert line["queue_offset"] == row["queue_offset"]


def stored_properties(row: dict[str, Any]) -> set[tuple[str, str]]:
    """Give all that is stored: a batch's own properties stand behind each message's (to 5.3.3)."""
    if row.get("properties_b64") is None:
        return set(row["properties"].items())
    items = formats.items(base64.b64decode(row["properties_b64"]))
    return {(item.name.decode(), item.value.decode()) for item in items}


def test_formats_agree(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """JSON lines, the JSON document and CSV hold the same rows in the same order."""
    store = str(fixture_store(fixture_names(scenario="traffic")[0], tmp_path))

    def out(format_: str) -> str:
        assert 0 == main(["dump", store, "--format", format_, "--body", "text"])
        return capfd.readouterr().out

    lines = [json.loads(line) for line in out("jsonl").splitlines()]
    assert lines == json.loads(out("json"))
    cells = list(csv.DictReader(io.StringIO(out("csv"))))
    assert [str(row["physical_offset"]) for row in lines] == [
        row["physical_offset"] for row in cells
    ]
    assert [row["properties"] for row in lines] == [json.loads(row["properties"]) for row in cells]


def test_columns_in_every_format(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--columns` gives those, in that order, and nothing else; JSON lines have nulls, too."""
    build_store(tmp_path, 2)
    asked = ["dump", str(tmp_path), "--columns", "topic,size,code"]
    assert 0 == main([*asked, "--format", "jsonl"])
    assert [["topic", "size", "code"]] * 2 == [
        [*json.loads(x)] for x in capfd.readouterr().out.splitlines()
    ]
    assert 0 == main([*asked, "--format", "csv"])
    assert "topic,size,code" == capfd.readouterr().out.splitlines()[0]
    assert 2 == main(["dump", str(tmp_path), "--columns", "nothing", "--format", "jsonl"])
    assert "no column nothing; there are: physical_offset" in capfd.readouterr().err


HOSTILE = (
    "\x1b[2J\x1b]0;title\x07", "\x9b31m", "\u202eoffset\u202c", "\u2066x", "\u200b", "../../../etc",
    "a\x00b", "=HYPERLINK(1)", "+1", "-1", "@x", "line\nbreak\r", "\x7f", "\\x1b", '"quoted",',
)  # fmt: skip


def hostile_store(root: Path) -> list[Message]:
    """Write records with hostile topics, tags, keys, properties and bodies."""
    offset, records, raw = 0, [], b""
    for text in (*HOSTILE, "\udcff\udcfe"):
        bytes_ = text.encode("utf-8", "surrogateescape")
        plain = bytes_.replace(b" ", b"_")
        properties = b"\x02".join(
            [b"TAGS\x01" + bytes_, b"KEYS\x01" + plain, b"UNIQ_KEY\x01" + bytes_,
             bytes_ + b"\x01" + bytes_, b""]
        )  # fmt: skip
        record = sealed(
            Message(
                physical_offset=offset,
                topic_bytes=bytes_,
                properties_bytes=properties,
                body=bytes_,
                store_timestamp=1,
            )
        )
        records.append(record)
        raw += encode(record)
        offset += record.total_size
    log = root / "commitlog"
    log.mkdir(parents=True)
    (log / f"{0:020}").write_bytes(raw.ljust(1 << 16, b"\0"))
    return records


def test_hostile_content_is_exact_in_json(tmp_path: Path, dump: Dump) -> None:
    """JSON gives back every byte, whatever it is."""
    records = hostile_store(tmp_path)
    code, rows, _ = dump(tmp_path, "--body", "text")
    assert (1, len(records)) == (code, len(rows))  # brokers refuse some of the topics
    for record, row in zip(records, rows, strict=True):
        assert record.topic_bytes == exact(row, "topic")
        assert record.body == exact(row, "body")
        assert (record.topic, record.tags, record.unique_key) == (
            row["topic"],
            row["tags"],
            row["unique_key"],
        )
        assert record.properties == row["properties"]
        if row["properties_b64"] is not None:
            assert record.properties_bytes == base64.b64decode(row["properties_b64"])


def exact(row: dict[str, Any], name: str) -> bytes:
    """Give the bytes of a text, from its twin where there is one."""
    twin = row.get(f"{name}_b64")
    return base64.b64decode(twin) if twin else str(row[name]).encode()


@pytest.mark.parametrize("format_", ["table", "csv", "json", "jsonl"])
@pytest.mark.parametrize("more", [["--body", "text"], ["--hex"]], ids=["rows", "hex"])
def test_hostile_content_is_harmless(
    tmp_path: Path, format_: str, more: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it reaches a terminal, a table or a file but as an escape."""
    hostile_store(tmp_path)
    main(["dump", str(tmp_path), "--format", format_, *more])
    text = capfd.readouterr().out.replace("\n", "")
    assert not {unicodedata.category(c) for c in text} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    if format_ == "csv":
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert not [c for c in cells if c.startswith(("=", "+", "-", "@")) and not is_number(c)]


def is_number(cell: str) -> bool:
    """Say whether a cell is a number of ours, such as a negative offset."""
    return cell.removeprefix("-").isdecimal()


def test_hostile_names_in_errors(tmp_path: Path) -> None:
    """A path with escapes in it does not reach the terminal with them."""
    path = tmp_path / "\x1b[31m\u202e\udcff"
    os.mkdir(path)  # noqa: PTH102 - bytes that are no text
    run = rmqtool("dump", path)
    assert (2, b"") == (run.code, run.out)
    assert "\x1b" not in run.err
    assert "\u202e" not in run.err


def test_empty_body_and_bodies_on_request(tmp_path: Path, dump: Dump) -> None:
    """Bodies are shown when they are asked for, in the way that was asked for."""
    hostile_store(tmp_path)
    _, rows, _ = dump(tmp_path, "--limit", 1)
    unread = ("body", "body_b64", "body_error")
    assert [None] * len(unread) == [rows[0][name] for name in unread]
    body = HOSTILE[0].encode()
    assert body.decode() == dump(tmp_path, "--limit", 1, "--body", "text")[1][0]["body"]
    assert body.hex() == dump(tmp_path, "--limit", 1, "--body", "hex")[1][0]["body"]
    (row,) = dump(tmp_path, "--limit", 1, "--body", "base64")[1]
    assert body == base64.b64decode(row["body_b64"])
    (row,) = dump(tmp_path, "--limit", 1, "--body", "redacted")[1]
    assert row["body"].startswith("sha256:")
    (row,) = dump(tmp_path, "--limit", 1, "--body", "text", "--body-limit", 4)[1]
    assert row["body"] is None
    assert "limit" in row["body_error"]


def test_compressed_bodies(tmp_path: Path, dump: Dump) -> None:
    """Compressed bodies are shown decompressed, unless `--raw` asks for what is stored."""
    store = fixture_store(fixture_names(scenario="traffic")[-1], tmp_path)
    _, plain, _ = dump(store, "--body", "base64")
    _, raw, _ = dump(store, "--body", "base64", "--raw")
    kinds = set()
    for one, other in zip(plain, raw, strict=True):
        kinds.add(one["compression"])
        stored = base64.b64decode(other["body_b64"])
        assert other["body_size"] == len(stored)
        assert (one["compression"] == "none") == (one["body_b64"] == other["body_b64"])
    assert {"none", "zlib", "lz4", "zstd"} == kinds


def test_damage_is_a_row_and_exit_1(tmp_path: Path, dump: Dump) -> None:
    """A damaged record is a gap with its code; the records behind it are all there."""
    built = build_store(tmp_path, 9)
    segment = min((tmp_path / "commitlog").iterdir())
    raw = bytearray(segment.read_bytes())
    raw[built.offsets[3] + 4] ^= 0x10  # the magic code
    segment.write_bytes(raw)
    code, rows, said = dump(tmp_path)
    assert (1, 9) == (code, len(rows))
    assert "rmqtool: 9 rows, damage in 1 of them\n" == said
    assert (built.offsets[3], built.sizes[3], "gap", "CL-MAGIC") == tuple(
        rows[3][name] for name in ("physical_offset", "size", "extent", "code")
    )
    assert built.offsets == [row["physical_offset"] for row in rows]


def test_damaged_body_is_marked(tmp_path: Path, dump: Dump) -> None:
    """A body that is not the one that was stored is shown with the code that says so."""
    built = build_store(tmp_path, 3)
    segment = min((tmp_path / "commitlog").iterdir())
    raw = bytearray(segment.read_bytes())
    raw[built.offsets[1] + 88] ^= 1
    segment.write_bytes(raw)
    code, rows, _ = dump(tmp_path)
    assert (1, [None, "CL-CRC", None]) == (code, [row.get("code") for row in rows])


def test_nothing_found(tmp_path: Path, dump: Dump) -> None:
    """A filter that nothing passes is exit 1, with a word, and no rows."""
    build_store(tmp_path, 3)
    said = "rmqtool: nothing found\nrmqtool: no topic 'no-such-topic' here; there are: T\n"
    assert (1, [], said) == dump(tmp_path, "--topic", "no-such-topic")


def bad_inputs(root: Path) -> Iterator[tuple[str, Path, int]]:
    """Make things that are no store, with the exit code that each must have."""
    yield "missing", root / "missing", 2
    empty = root / "empty"
    empty.mkdir()
    yield "empty", empty, 2
    other = root / "other"
    other.mkdir()
    (other / "file.txt").write_text("hello")
    yield "not a store", other, 2
    yield "not a store's file", other / "file.txt", 2
    nothing = root / "nothing"
    (nothing / "commitlog").mkdir(parents=True)
    (nothing / "commitlog" / f"{0:020}").write_bytes(b"")
    yield "zero length", nothing, 1
    yield "zero length file", nothing / "commitlog" / f"{0:020}", 1
    loop = root / "loop"
    loop.symlink_to(loop)
    yield "loop", loop, 2
    looped = root / "looped"
    looped.mkdir()
    (looped / "commitlog").symlink_to(looped / "commitlog")
    (looped / "index").mkdir()
    yield "loop inside", looped, 2
    directory = root / "directory"
    (directory / "commitlog" / f"{0:020}").mkdir(parents=True)
    yield "a directory in place of a file", directory, 2
    odd = root / "odd"
    build_store(odd, 5)
    first = min((odd / "commitlog").iterdir())
    first.write_bytes(first.read_bytes()[:-777])
    yield "odd length", odd, 0
    cut = root / "cut"
    built = build_store(cut, 5)
    first = min((cut / "commitlog").iterdir())
    first.write_bytes(first.read_bytes()[: built.offsets[2] + 50])
    yield "cut inside a record", first, 1
    pipe = root / "pipe"
    os.mkfifo(pipe)
    yield "a pipe", pipe, 2


def test_bad_input(tmp_path: Path, capfd: pytest.CaptureFixture[str], evidence: Evidence) -> None:
    """Each gives its exit code, one clear line or a row, no traceback, and stays as it was."""
    inputs = list(bad_inputs(tmp_path))
    evidence.keep(tmp_path)
    for name, path, code in inputs:
        found = main(["dump", str(path), "--format", "jsonl"])
        out, err = capfd.readouterr()
        assert (name, code) == (name, found), err
        assert "Traceback" not in err
        assert len(err.splitlines()) <= 2
        assert code == 0 or err or out


def test_no_permission(tmp_path: Path, dump: Dump, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may not be read is exit 2 alone, and exit 3 beside what can be."""
    build_store(tmp_path, 60)
    first, *_ = sorted((tmp_path / "commitlog").iterdir())
    real = os.open

    def refuse(path: str, *rest: int, dir_fd: int | None = None) -> int:
        """Do what the system does; root may read everything, so it has to be played."""
        if str(path).endswith(first.name):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    code, rows, said = dump(tmp_path)
    assert (3, "FS-READ") == (code, rows[0]["code"])
    assert "permission denied" in said
    code, rows, said = dump(first)
    assert (2, []) == (code, [row for row in rows if row["code"] != "FS-READ"])
    assert "permission denied" in said


def test_several_kinds(tmp_path: Path, dump: Dump) -> None:
    """`--as all` gives every kind, each row with its kind; CSV says why it cannot."""
    store = fixture_store(fixture_names(scenario="traffic")[0], tmp_path)
    code, rows, _ = dump(store, "--as", "all")
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    assert (0, ["commitlog", "consume-queue", "index", "checkpoint"]) == (code, kinds[:4])
    run = rmqtool("dump", store, "--as", "all", "--format", "csv")
    assert (2, b"") == (run.code, run.out)
    assert "--format" in run.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--as", "checkpoint", "--topic", "T"], "--topic"),
        (["--as", "consume-queue", "--key", "K"], "--key"),
        (["--as", "index", "--key", "K"], "give --topic and --key"),
        (["--as", "checkpoint", "--hex", "--offsets", "1:2"], "--offsets"),
    ],
)
def test_filters_that_say_nothing(
    tmp_path: Path, arguments: list[str], words: str, dump: Dump
) -> None:
    """A filter that cannot choose among the rows is refused, not ignored."""
    store = fixture_store(fixture_names(scenario="traffic")[0], tmp_path)
    code, rows, said = dump(store, *arguments)
    assert (2, []) == (code, rows)
    assert words in said


def test_units_in_rocksdb(tmp_path: Path, dump: Dump) -> None:
    """Queues in a database have units like those in files."""
    name = fixture_names(scenario="rocksdb")[0]
    code, rows, _ = dump(fixture_store(name, tmp_path), "--as", "consume-queue")
    assert (0, len(list(sent(name)))) == (code, len(rows))


def test_hex_on_a_terminal(tmp_path: Path) -> None:
    """The hex view fits 80 columns with position, bytes, field and value."""
    build_store(tmp_path, 1)
    run = on_terminal(["dump", tmp_path, "--hex", "--color", "never"], 80)
    assert ["position", "hex", "field", "value"] == run.lines[0].split()
    assert max(map(len, run.lines)) <= 80


def test_small_files_need_no_bulk_libraries(tmp_path: Path) -> None:
    """A look at a checkpoint does not wait for numpy, numba or Arrow."""
    store = fixture_store(fixture_names(scenario="traffic")[0], tmp_path)
    program = (
        "import sys; from rmqtool.cli.main import main; code = main(sys.argv[1:]);"
        "print(code, *sys.modules, file=sys.stderr)"
    )
    run = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, "dump", str(store / "checkpoint")],
        capture_output=True,
        text=True,
        check=True,
    )
    code, *loaded = run.stderr.split()
    assert ("0", set()) == (code, {"numpy", "numba", "pyarrow"} & set(loaded))


def test_progress_is_for_a_terminal(tmp_path: Path) -> None:
    """A bar with bytes and rate is shown when stderr is a terminal and the rows go elsewhere."""
    build_store(tmp_path, 5)
    command = f'"{sys.executable}" -m rmqtool dump "{tmp_path}"'
    for more, is_shown in (("> /dev/null", True), ("> /dev/null --quiet", False), ("", False)):
        run = subprocess.run(  # noqa: S603 - our own program
            ["script", "-qec", f"{command} {more}", "/dev/null"],  # noqa: S607
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert is_shown == ("━" in run.stdout)


def test_pandas_is_left_out(tmp_path: Path) -> None:
    """Pyarrow loads pandas for its first array; a command that makes none of it does not wait."""
    build_store(tmp_path / "store", 1)
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas was loaded')\n")
    run = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "rmqtool", "dump", str(tmp_path / "store"), "--format", "jsonl"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"},
    )
    assert (0, 1) == (run.returncode, run.stdout.count("physical_offset")), run.stderr
