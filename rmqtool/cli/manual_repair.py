"""What the manual says of `rmqtool repair` beyond its options: what comes back, and what stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.cli.manual_page import Item, Section, texts

if TYPE_CHECKING:
    from rmqtool.cli.manual_page import Block

PUT_BACK: Final = """
A field that no checksum covers is put back instead of bridging its record where other bytes of the
store tell what it was: the place in the log; topic and queue id, by the unit of the record in its
true consume queue, if no other record claims that place; the numbers of a record in light queues,
by their units there or, without these, by the number that is missing between its neighbours in the
log. At a number that is none a broker which recovers after a crash does not start; where nothing
tells it, spaces are written, at which brokers leave light queues out: the message stays in its own
queue.
"""
LEFT: Final = (
    ("CL-QOFF-BACK", (
        "The queue was deleted and made anew: newer messages have the numbers of older ones. "
        "rmqtool dump STORE --topic TOPIC --queue ID shows these; only sending them again "
        "delivers them."
    )),
    ("CL-MIXDL, DL-*", (
        "A DLedger log: what is committed, the other nodes of the group say. Move the node's data "
        "away and let it copy the leader's."
    )),
    ("FS-DUP", (
        "Two commitlog files of one name that differ: rmqtool validate FILE judges each; move the "
        "worse one away. Of two that are the same, one is taken out."
    )),
    ("FS-NAME", (
        "A commitlog file under a number that is no place of a file may hold records of the log. "
        "Rename it to where its first record says it lies, as the plan words it, or move it away: "
        "until then nothing can be judged against the log."
    )),
    ("FS-READ", (
        "A link that is not followed, or a bad sector: what is behind it may be intact. Bring back "
        "what the link leads to, or remove it: a queue is then repaired from the log. Of a bad "
        "disk, repair a copy."
    )),
    ("FS-GAP", (
        "A segment is missing: it may be in a backup. With --bridge-missing a file of bridges "
        "takes its place."
    )),
    ("CO-RANGE, DO-RANGE", "Offsets ahead of their queue: --clamp-offsets sets them to its end."),
    ("CF-JSON", (
        "JSON that cannot be parsed, and no .bak that can: bring it back from a backup. A broker "
        "starts as if it had never been."
    )),
)  # fmt: skip


def sections(name: str) -> list[Block]:
    """Give the further sections of a command's page."""
    if name != "repair":
        return []
    return [
        Section("WHAT IS PUT BACK"),
        *texts(PUT_BACK),
        Section("WHAT A PERSON DECIDES"),
        *(Item(codes, (text,)) for codes, text in LEFT),
    ]
