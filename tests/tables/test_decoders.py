"""Bodies by a decoder of the user's own: what it answers is shown, its failures are one line."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import os
import sys
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.main import main
from rmqtool.formats.message import Message, encode, sealed
from rmqtool.sending.options import SendOptions
from rmqtool.sending.sending import SendRun
from rmqtool.tables import decoders
from tests.cli.run import Run, rmqtool
from tests.stores import fixture_store

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "decoders"
LOOP: Final = """
import base64, json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    body = base64.b64decode(request["body_b64"])
    {}
"""


def log(place: Path, *bodies: bytes) -> Path:
    """Write a log of messages with these bodies."""
    file = place / "store" / "commitlog" / "00000000000000000000"
    file.parent.mkdir(parents=True)
    raw = b""
    for number, body in enumerate(bodies):
        message = Message(topic_bytes=b"orders", body=body, queue_offset=number)
        raw += encode(sealed(message._replace(physical_offset=len(raw))))
    file.write_bytes(raw)
    return place / "store"


def command(place: Path, statement: str) -> str:
    """Write a decoder that does something with each body; give its command."""
    path = place / "decoder.py"
    path.write_text(LOOP.format(statement), encoding="utf-8")
    return f"{sys.executable} {path}"


def example(name: str, *words: object) -> str:
    """Give the command of an example."""
    return " ".join(map(str, (sys.executable, EXAMPLES / f"{name}_decoder.py", *words)))


def rows(run: Run) -> list[dict[str, object]]:
    """Give rows, and make sure that the command did its work."""
    assert 0 == run.code, run.err
    return [json.loads(line) for line in run.out.splitlines()]


def test_json(tmp_path: Path) -> None:
    """What is JSON is shown as JSON, what is not has the error; bytes are there in either case."""
    store = log(tmp_path, b'{"b": [1,  2], "a": null}', b"\xffno", b'"text"')
    shown = rows(rmqtool("dump", store, "--decoder", example("json"), "--format", "jsonl"))
    assert ['{"a":null,"b":[1,2]}', None, "text"] == [row["body"] for row in shown]
    assert [None, "decoder: no JSON", None] == [
        error and str(error)[:16] for error in (row["body_error"] for row in shown)
    ]
    assert base64.b64encode(b"\xffno").decode() == shown[1]["body_b64"]
    (row,) = rows(
        rmqtool("query", store, "--at", "0", "--decoder", example("json"), "--format", "jsonl")
    )
    assert '{"a":null,"b":[1,2]}' == row["body"]


def test_avro(tmp_path: Path) -> None:
    """Avro by a schema file."""
    fastavro = pytest.importorskip("fastavro")
    schema = {
        "type": "record", "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
    }  # fmt: skip
    (tmp_path / "order.avsc").write_text(json.dumps(schema), encoding="utf-8")
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), {"id": 7, "note": "中"})
    store = log(tmp_path, body.getvalue(), b"\x02")
    words = example("avro", tmp_path / "order.avsc")
    shown = rows(rmqtool("dump", store, "--decoder", words, "--format", "jsonl"))
    assert '{"id":7,"note":"中"}' == shown[0]["body"]
    assert str(shown[1]["body_error"]).startswith("decoder: ")


def test_protobuf(tmp_path: Path) -> None:
    """Protobuf by a file of descriptors."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="note", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    descriptors = descriptor_pb2.FileDescriptorSet(file=[file])
    (tmp_path / "order.desc").write_bytes(descriptors.SerializeToString())
    store = log(tmp_path, b"\x0a\x03abc", b"\xff")
    words = example("protobuf", tmp_path / "order.desc", "shop.Order")
    shown = rows(rmqtool("dump", store, "--decoder", words, "--format", "jsonl"))
    assert '{"note":"abc"}' == shown[0]["body"]
    assert str(shown[1]["body_error"]).startswith("decoder: DecodeError")


def test_context(tmp_path: Path) -> None:
    """A decoder gets the topic that a message was sent to, its properties, and inflated bodies."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    answer = '{"body": [request["topic"], sorted(request["properties"])[:1], len(body[:5])]}'
    words = command(tmp_path, f"print(json.dumps({answer}), flush=True)")
    shown = rows(rmqtool("dump", store, "--decoder", words, "--format", "jsonl", "--limit", "3000"))
    texts = {row["topic"]: json.loads(str(row["body"])) for row in shown if row["body"] is not None}
    assert "traffic-delay" == texts["SCHEDULE_TOPIC_XXXX"][0] or "%RETRY%" in str(texts)
    assert "traffic-orders" == texts["traffic-orders"][0]
    assert 5 == texts["traffic-compressed"][2]
    plain = rows(rmqtool("dump", store, "--body", "text", "--format", "jsonl"))
    assert len(plain) == len(shown)


def test_extract_and_send(tmp_path: Path) -> None:
    """What is extracted with a decoder can be sent, as it was, whatever was not decoded."""
    store = log(tmp_path, b"[1]", b"\xff")
    file = tmp_path / "all.jsonl"
    run = rmqtool("extract", store, "--output", file, "--decoder", example("json"))
    assert 0 == run.code, run.err
    assert "1 message not decoded: see column body_error" in run.err
    content = SendRun(SendOptions(str(file), dry_run=True)).check()
    assert (2, 0, 4) == (content.total, content.bad_count, sum(content.bytes.values()))
    refused = rmqtool(
        "extract", store, "--output", tmp_path / "all.rmq", "--decoder", example("json")
    )
    assert "--decoder: records are written whole: no decoder" in refused.err


def test_sql(tmp_path: Path) -> None:
    """A question sees bodies as the decoder shows them."""
    pytest.importorskip("duckdb")
    store = log(tmp_path, b'{"a": 1}', b"[2]")
    question = "SELECT body FROM messages ORDER BY queue_offset"
    run = rmqtool("sql", store, question, "--decoder", example("json"), "--format", "jsonl")
    assert ['{"a":1}', "[2]"] == [row["body"] for row in rows(run)]


@pytest.mark.spark
def test_here_only(tmp_path: Path) -> None:
    """A decoder runs on this machine: no executor of Spark has it."""
    store = log(tmp_path, b"[1]")
    for words in (
        ["dump", store],
        ["sql", store, "SELECT 1"],
        ["query", store, "--at", "0", "--scan"],
    ):
        run = rmqtool(*words, "--decoder", example("json"), "--engine", "spark")
        assert (2, True) == (run.code, "--decoder: runs on this machine only" in run.err), run.err


def test_long_body(tmp_path: Path) -> None:
    """A body longer than a pipe holds, from a decoder that answers before it has read all of it."""
    store = log(tmp_path, b"[" + b"1," * 100_000 + b"1]")
    (row,) = rows(rmqtool("dump", store, "--decoder", example("json"), "--format", "jsonl"))
    assert 100_001 == len(json.loads(str(row["body"])))


WRONG: Final = {
    "sys.exit(3)": "ended, with exit code 3",
    "print('nonsense', flush=True)": "answers b'nonsense', not a body or an error",
    "print('[1]', flush=True)": "not a body or an error",
    "time.sleep(99)": "did not answer within 1 s",
    "print('x' * 10_000_000, flush=True)": "not a body or an error",
}


@pytest.mark.parametrize("statement", WRONG)
def test_wrong(
    statement: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A decoder that ends, hangs or answers nonsense ends the run with one line, and its step."""
    if "sleep" in statement:
        monkeypatch.setattr(decoders, "PATIENCE", 1.0)
    words = command(tmp_path, statement)
    store = log(tmp_path, b"[1]" * 50_000)
    file = tmp_path / "all.jsonl"
    for line in (["dump", str(store)], ["extract", str(store), "--output", str(file)]):
        decoders.decoder_of.cache_clear()
        assert 2 == main([*line, "--decoder", words])
        said = capfd.readouterr().err.splitlines()
        assert WRONG[statement] in said[0]
        assert said[0].startswith(f"rmqtool: --decoder {words!r}")
        assert "rmqtool: try: rmqtool help decoders" in said[1]
        assert not file.exists()


def test_no_decoder(tmp_path: Path) -> None:
    """What cannot be started, or has no meaning, is named before anything is read."""
    store = log(tmp_path, b"[1]")
    for words, reason in {
        "/no/such": "'/no/such' cannot be started: No such file or directory",
        "'": "cannot be started: No closing quotation",
        "": "cannot be started",
    }.items():
        run = rmqtool("dump", store, "--decoder", words)
        assert (2, True) == (run.code, reason in run.err), run.err
    run = rmqtool("dump", store, "--decoder", "cat", "--body", "hex")
    assert "--decoder: cannot be combined with --body hex" in run.err


def test_entry_point(tmp_path: Path) -> None:
    """A function of an installed package; what it raises is the error of its body."""
    package = tmp_path / "site"
    facts = package / "ours-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n", "utf-8")
    (facts / "entry_points.txt").write_text(
        "[rmqtool.decoders]\nours = ours:decode\ngone = nowhere:decode\n", "utf-8"
    )
    (package / "ours.py").write_text(
        "def decode(topic, properties, body):\n"
        "    if body == b'2':\n        raise KeyError('two')\n"
        "    return {'topic': topic, 'raw': body, 'big': 1 << 99 if body == b'3' else 1}\n",
        "utf-8",
    )
    store = log(tmp_path, b"1", b"2", b"3")
    env = {"PYTHONPATH": os.pathsep.join((str(package), str(Path.cwd())))}
    run = rmqtool("dump", store, "--decoder", "ours", "--format", "jsonl", env=env)
    shown = rows(run)
    assert '{"big":1,"raw":"MQ==","topic":"orders"}' == shown[0]["body"]
    assert "decoder: KeyError: 'two'" == shown[1]["body_error"]
    assert str(shown[2]["body_error"]).startswith("decoder: the decoder gives what JSON cannot")
    gone = rmqtool("dump", store, "--decoder", "gone", env=env)
    assert "entry point 'gone' cannot be loaded: ModuleNotFoundError" in gone.err


def test_examples_are_tested() -> None:
    """Each example has its test."""
    names = {path.stem.removesuffix("_decoder") for path in EXAMPLES.iterdir() if path.suffix}
    assert {"avro", "json", "protobuf"} == names
    assert importlib.util.find_spec("json") is not None
