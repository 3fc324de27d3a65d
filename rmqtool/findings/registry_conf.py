"""Codes of the broker's own configuration file, broker.conf: BC."""

from __future__ import annotations

from typing import Final

from rmqtool.findings.catalogue import DAMAGE, INFO, NOTE, STARTUP, WARNING, Code, Owner

BC_KEY: Final = Code(
    "BC-KEY",
    WARNING,
    Owner.PERSON,
    also=(NOTE,),
    when="a note for a key that only other releases know, or none",
    meaning="a broker ignores a key of its configuration, or cannot read the value",
    consequence="the broker says nothing and goes by its default",
    remedy="correct the line that is named; a number has no spaces, not even at its end",
    command=STARTUP,
)
BC_LEN: Final = Code(
    "BC-LEN",
    DAMAGE,
    Owner.PERSON,
    meaning="the configuration gives files another length than they have",
    consequence="the broker refuses to start, or reads an index at wrong places; the files agree "
    "with each other, and are read by their own length",
    remedy="correct the key in broker.conf; do not change the files",
    command=STARTUP,
)
BC_PATH: Final = Code(
    "BC-PATH",
    DAMAGE,
    Owner.PERSON,
    also=(NOTE,),
    when="a note where the directory may lie on the machine of the broker only",
    meaning="the configuration names a directory of the commitlog that is not there",
    consequence="a broker creates it and begins with the files of its other directories; without "
    "any it deletes every consume queue, and begins an empty log",
    remedy="mount or restore the directory, or correct the path; several paths have a comma "
    "between them",
    command=INFO,
)
