"""Lengths of files that a broker.conf, or a default, gives wrongly: the files have others.

A broker goes by what it was told, and refuses files of another length. So where the files agree
with each other the configuration is to be corrected, never the files.
Source: MappedFileQueue#doLoad, IndexService#load, MessageStoreConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rmqtool.broker import conf
from rmqtool.store.geometry import KEYS, LengthSource, as_configured, refutes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.broker.release import Version
    from rmqtool.store.tree import Store

# What a broker opens only when it is told so; None where it always does.
COMPARED: Final[dict[str, conf.Key[bool] | None]] = {
    "commitlog": None,
    "consume_queue": None,
    "consume_queue_ext": conf.EXT,
    "batch_queue": None,
    "timer_log": conf.TIMER_WHEEL,
    "index_slots": conf.INDEX,
    "index_entries": conf.INDEX,
}


@dataclass(frozen=True, slots=True)
class WrongLength:
    """A length that the configuration and the files do not agree on."""

    key: str  # of the configuration
    line: int  # its number there; 0 where it is not given
    configured: int  # bytes, or items of an index file, that a broker goes by
    on_disk: int  # the same as the files have it

    def __str__(self) -> str:
        if self.line:
            return (
                f"line {self.line}: {self.key}={self.configured}, and the files have {self.on_disk}"
            )
        return (
            f"{self.key} is not given: {self.configured} counts, and the files have {self.on_disk}"
        )


def wrong_lengths(store: Store, version: Version) -> Iterator[WrongLength]:
    """Yield the lengths that a broker of a release would go by, and that the files refute.

    Nothing without a broker.conf. A file that is shorter than the others is a matter of the file.
    """
    broker_conf = store.broker_conf
    if broker_conf is None:
        return
    expected = dict(as_configured(broker_conf, version).items())
    bare = replace(store, broker_conf=None, follows_conf=False)
    on_disk, lengths = dict(bare.geometry.items()), bare.file_lengths()
    for name, switch in COMPARED.items():
        if switch is not None and not switch.of(broker_conf, version):
            continue
        key, wanted, seen = KEYS[name], expected[name].value, on_disk[name]
        if seen.source is not LengthSource.FILES or seen.value == wanted:
            continue
        is_given = key.given(broker_conf, version) is not None
        # One file alone may have been cut.
        may_be_cut = name == "commitlog" and len(lengths[name]) == 1 and seen.value < wanted
        distance = bare.name_distance(name)
        if refutes(lengths[name], wanted, distance) or not (is_given or may_be_cut):
            line = broker_conf.lines.get(key.name, 0) if is_given else 0
            yield WrongLength(key.name, line, wanted, seen.value)
