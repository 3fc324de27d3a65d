"""The kinds of archives that stores are read from, each declared once.

How one is read is in `archives/`: the members of a tar or a zip, and streams that hold a tar.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Container(NamedTuple):
    """One kind of archive, or of compression around a tar."""

    name: str
    endings: tuple[str, ...]  # of its files; the first one is that of the help
    magics: tuple[bytes, ...]
    unpacking: str  # command that unpacks {archive} into DIR
    at: int = 0  # where its magic is
    is_compressed: bool = False  # one stream, with a tar in it


UNTAR: Final = "tar -xf {archive} -C DIR"
TAR: Final = Container("tar", (".tar",), (b"ustar",), UNTAR, at=257)
GZIP: Final = Container(
    "gzip", (".tar.gz", ".tgz", ".gz"), (b"\x1f\x8b",), UNTAR, is_compressed=True
)
ZSTD: Final = Container(
    "zstd", (".tar.zst", ".tzst", ".zst"), (b"\x28\xb5\x2f\xfd",), UNTAR, is_compressed=True
)
ZIP: Final = Container("zip", (".zip",), (b"PK\x03\x04", b"PK\x05\x06"), "unzip {archive} -d DIR")
CONTAINERS: Final = (TAR, GZIP, ZSTD, ZIP)

# Of a store: a compressed file alone may be anything, as carve takes it.
ENDINGS: Final = tuple(
    ending
    for container in CONTAINERS
    for ending in container.endings
    if not container.is_compressed or ending.startswith((".tar", ".t"))
)
SHOWN: Final = ", ".join(container.endings[0] for container in CONTAINERS)
COMPRESSED: Final = tuple(
    ending
    for container in CONTAINERS
    if container.is_compressed
    for ending in container.endings
    if not ending.startswith(".tar")
)


def container_of(head: bytes) -> Container | None:
    """Tell by its first bytes what an archive is; None for none of these."""
    for container in CONTAINERS:
        if head[container.at :].startswith(container.magics):
            return container
    return None


def unpacking(archive: str, shown: str) -> str:
    """Give the command that unpacks an archive into DIR.

    Args:
        archive: its name, which says what it is.
        shown: the same as a shell takes it.
    """
    name = archive.lower()
    fitting = (container for container in CONTAINERS if name.endswith(container.endings))
    return next(fitting, TAR).unpacking.format(archive=shown)
