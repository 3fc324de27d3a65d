"""The command lines of the campaign: each command but those of Spark, with each of its options.

`test_lines.py` sees to it that none is forgotten. Words in braces stand for what `Given` has. After
the command comes the damaged store, unless the line names it itself, or something instead.
"""

from __future__ import annotations

from typing import Final

STORE: Final = "{store}"  # where it is not the first word
ARCHIVE: Final = "{archive}"
IMAGE: Final = "{image}"
SENT: Final = "{sent}"
SEVERAL: Final = "--stores-file"
INSTEAD: Final = frozenset({ARCHIVE, IMAGE, SENT, SEVERAL, "{work}/all.jsonl", "{work}/all.rmq"})
IN_PLACE: Final = ("--in-place", "--yes", "--yes")
UNDO: Final = ("repair", "--undo")
LOOK: Final = (
    ("validate",), ("validate", "--level", "deep", "--format", "jsonl"),
    ("validate", "--level", "quick", "--quiet"),
    ("validate", "--recursive", "--findings", "{work}/findings"),
    ("validate", SEVERAL, "{stores}", "--jobs", "1"),
    ("validate", "--manifest", "{work}/now", "--range-checksum", "--sarif", "{work}/sarif",
     "--junit", "{work}/junit", "--output", "{work}/rows.csv", "--format", "csv",
     "--columns", "code,severity,path"),
    ("validate", "--since-manifest", "{manifest}", "--manifest", "{work}/next"),
    ("validate", "--only", "commitlog,consumequeue", "--topic", "{topic}", "--ignore", "CQ-TAG",
     "--fail-on", "note", "--max-rate", "1GB", "--format", "table", "--color", "always"),
    ("validate", "--broker-version", "5.5.0", "--broker-conf", "{conf}", "--as-user", "nobody"),
    ("validate", ARCHIVE, "--unpack-limit", "1GiB"),
    ("info",), ("info", "--format", "json"), ("info", "--broker-conf", "{conf}"),
    ("info", "--section", "segments", "--format", "table", "--output", "{work}/info"),
    ("doctor",), ("doctor", "--format", "json"), ("doctor", ARCHIVE),
    ("doctor", "--at", "2030-01-01"), ("startup", "--at", "2030-01-01"),
    ("doctor", "--lang", "zh", "--format", "table"),
    ("doctor", "--broker-version", "4.9.3", "--output", "{work}/doctor", "--format", "table"),
    ("dump", "--body", "text", "--format", "jsonl"), ("dump", "--as", "all", "--format", "jsonl"),
    ("dump", "--hex", "--limit", "500"), ("dump", "--tail", "20", "--fillers"),
    ("dump", "--body", "hex", "--raw", "--body-limit", "1KiB", "--format", "csv"),
    ("dump", "--topic", "{topic}", "--queue", "0", "--queue-offsets", "0:9", "--format", "table"),
    ("dump", "--tag", "a", "--key", "k", "--where-property", "A=B", "--offsets", "0:1MiB"),
    ("dump", "--from", "2020-01-01", "--to", "2040-01-01", "--time-zone", "Europe/Berlin"),
    ("dump", "--since", "9999d"), ("dump", "--around", "2026-11-21T12:00±9h"),
    ("dump", "--as", "config", "--format", "broker-json", "--output", "{work}/config"),
    ("query", "--key", "none"), ("query", "--at", "0"), ("query", "--group", "{group}"),
    ("query", "--at", "0", "--group", "{group}", "--explain"),
    ("query", "--time", "2026-11-21", "--boundary", "upper"),
    ("query", "--time", "2026-11-21", "--topic", "{topic}", "--like-broker", "4.9.3"),
    ("query", "--topic", "{topic}", "--queue", "0", "--queue-offset", "1", "--body", "text",
     "--raw", "--body-limit", "9"),
    ("query", "--at", "9", "--trace", "--hex", "--format", "json", "--output", "{work}/found"),
    ("query", "--key", "none", "--scan"), ("query", "--transaction", "none"),
    ("query", "--id", "7F00000100002A9F0000000000000000"), ("query", "--around", "2026-11-21"),
    ("startup", "--broker-version", "5.3.3"), ("startup", "--broker-version", "4.9.3"),
    ("startup", "--broker-version", "5.5.0", "--all-queues", "--as-user", "nobody"),
    ("startup", "--broker-version", "6.0.0", "--rules-of", "5.5.0"),
    ("startup", "--section", "verdict", "--format", "json", "--output", "{work}/startup"),
    ("diff", "{sound}"), ("diff", "{same}", "--format", "jsonl"), ("diff", ARCHIVE, "{sound}"),
    ("diff", "{manifest}"), ("diff", "{replica}", "--section", "messages"),
    ("diff", "{same}", "--merge-offsets", "--output", "{work}/consumerOffset.json"),
    ("report", "--output", "{work}/report.html"),
    ("report", "--output", "{work}/hashes.html", "--hashes", "--level", "deep"),
)  # fmt: skip
MESSAGES: Final = (
    ("extract", "--output", "{work}/all.jsonl", "--held"),
    ("extract", "--output", "{work}/all.rmq"), ("extract", ARCHIVE, "--output", "{work}/of.rmq"),
    ("extract", "--output", "{work}/all.parquet", "--where", "TAGS IS NOT NULL OR a > 1"),
    ("extract", "--output", "{work}/lost.jsonl", "--lost-in", "{same}"),
    ("extract", "--output", "{work}/found.rmq", "--lost-in", SENT),
    ("extract", "--output", "{work}/undecided.jsonl", "--undecided"),
    ("extract", "--output", "{work}/pending.jsonl", "--pending"),
    ("extract", "--output", "{work}/waiting.parquet", "--unconsumed-by", "{group}"),
    ("extract", "--output", "{work}/dead.jsonl", "--dead-letters", "{group}"),
    ("extract", "--output", "{work}/some", "--format", "jsonl", "--body-limit", "9",
     "--topic", "{topic}", "--queue", "0", "--queue-offsets", "1:", "--offsets", ":1GiB"),
    ("extract", "--output", "{work}/none.rmq", "--tag", "a", "--key", "k",
     "--where-property", "A=B", "--from", "2020-01-01", "--to", "2040-01-01"),
    ("extract", "--output", "{work}/late.rmq", "--since", "2026-11-21"),
    ("extract", "--output", "{work}/then.rmq", "--around", "2026-11-21T12:00±9h"),
    ("send", "{work}/all.jsonl", "--dry-run"), ("send", "{work}/all.rmq", "--dry-run"),
    ("send", SENT, "--dry-run", "--skip-bad", "--held", "--format", "json"),
    ("send", SENT, "--dry-run", "--topic", "{topic}", "--output", "{work}/sending"),
    ("send", "{work}/all.rmq", "--name-server", "{servers}", "--rate", "9999", "--skip-bad",
     "--to-topic", "orders", "--system-topics", "--ledger", "{work}/ledger", "--timeout", "5"),
    ("carve", IMAGE, "--output", "{work}/carved.rmq"),
    ("carve", IMAGE, "--output", "{work}/carved.jsonl", "--map", "{work}/map.html"),
    ("carve", IMAGE, ARCHIVE, "--output", "{work}/carved", "--by-store", "--lone",
     "--format", "jsonl", "--summary", "json", "--map", "{work}/maps.html"),
    ("rebuild-log", "--output", "{work}/log"), ("rebuild-log", ARCHIVE, "--output", "{work}/of"),
    ("rebuild-log", "{same}", "--output", "{work}/two", "--queue-offsets", "renumber"),
    ("rebuild-log", "{replica}", "--output", "{work}/union", "--record-version", "2"),
    ("rebuild-log", "--output", "{work}/kept", "--positions", "keep"),
    ("rebuild-log", SENT, "--output", "{work}/sent"),
    ("rebuild-log", "--output", "{work}/old", "--record-version", "1", "--drop-expired"),
    ("rebuild-log", "--dry-run", "--segment-size", "1MiB", "--store-host", "10.0.0.1:10911",
     "--broker-version", "4.9.3", "--topic", "{topic}", "--queue", "0", "--format", "json"),
    ("rebuild-log", "--dry-run", "--tag", "a", "--key", "k", "--where-property", "A=B",
     "--offsets", "0:", "--from", "2020-01-01", "--to", "2040-01-01"),
    ("rebuild-log", "--dry-run", "--since", "9999d", "--drop-expired", "--broker-conf", "{conf}"),
    ("rebuild-log", "--dry-run", "--around", "2026-11-21T12:00±9h"),
)  # fmt: skip
MEND: Final = (
    ("rebuild", SEVERAL, "{stores}", "--output", "{work}/each"),
    ("rebuild-cq", SEVERAL, "{stores}", "--check"),
    ("rebuild-index", SEVERAL, "{stores}", "--dry-run"),
    ("rebuild", "--check"), ("rebuild", "--output", "{work}/rebuilt"),
    ("rebuild", "--check", "--like-broker", "--broker-version", "5.5.0",
     "--format", "jsonl"),
    ("rebuild", "--dry-run", "--ext", "--time-zone", "Europe/Berlin"),
    ("rebuild-cq", "--output", "{work}/queues"),
    ("rebuild-cq", "--output", "{work}/rocks", "--as", "rocksdb", "--format", "json"),
    ("rebuild-cq", "--check", "--topic", "{topic}", "--queue", "0"),
    ("rebuild-cq", "--dry-run", "--as", "files", "--like-broker", "--ext",
     "--broker-version", "4.9.3"),
    ("rebuild-index", "--output", "{work}/index"),
    ("rebuild-index", "--output", "{work}/keys", "--as", "rocksdb", "--format", "json"),
    ("rebuild-index", "--check", "--broker-version", "5.5.0"),
    ("rebuild-index", "--dry-run", "--as", "files", "--time-zone", "Europe/Berlin"),
    ("repair",), ("repair", "--bridge-missing", "--format", "jsonl"),
    ("repair", "--set-offset", "{group}=last"),
    ("repair", "--dry-run", "--clamp-offsets", "--fast-start", "--broker-version", "4.9.3"),
    ("repair", "--output", "{work}/copy", "--quarantine", "{work}/quarantine"),
    ("repair", "--from", "{replica}"), ("repair", "--from", ARCHIVE, "--reset-config"),
    ("repair", "{same}", "--from", STORE, "--output", "{work}/whole"),
    ("repair", *IN_PLACE), UNDO,
    ("repair", "--from", "{replica}", *IN_PLACE, "--bridge-missing", "--clamp-offsets"), UNDO,
    ("repair", "--from", "{same}", "--reset-config", "--fast-start", "--plan", "{work}/plan"),
    ("repair", *IN_PLACE, "--apply", "{work}/plan"), UNDO,
    ("rebuild", *IN_PLACE), UNDO, ("rebuild-cq", *IN_PLACE), UNDO,
    ("rebuild-index", *IN_PLACE), UNDO,
)  # fmt: skip
COMMANDS: Final = (*LOOK, *MESSAGES, *MEND)
KEPT: Final = frozenset({"all.jsonl", "all.rmq", "plan"})  # another command reads it
