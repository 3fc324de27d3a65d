"""Images of virtual disks, told by their first bytes, and the command that makes raw ones of them.

Their clusters may be compressed, and lie in any order: a record that crosses the end of a cluster
is then cut, and a compressed one is not found.
Source: qemu's docs/interop/qcow2.txt, VMware's Virtual Disk Format 5.0, libewf.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.carve.search import Image

_VDI_AT: Final = 0x40


class VirtualDisk(NamedTuple):
    """A kind of image."""

    name: str  # as people call it, and qemu-img
    magic: bytes  # what it begins with
    at: int = 0  # where that is


_KINDS: Final = (
    VirtualDisk("qcow2", b"QFI\xfb"),
    VirtualDisk("vmdk", b"KDMV"),
    VirtualDisk("vmdk", b"COWD"),
    VirtualDisk("vmdk", b"# Disk DescriptorFile"),
    VirtualDisk("vhdx", b"vhdxfile"),
    VirtualDisk("vpc", b"conectix"),
    VirtualDisk("vdi", b"\x7f\x10\xda\xbe", _VDI_AT),
)
_EWF: Final = (b"EVF\x09\x0d\x0a\xff", b"EVF2\x0d\x0a\x81")


def sentence_of(image: Image) -> str:
    """Say of an image of a virtual disk how it is made a raw one; empty for other images."""
    head = image.head
    path, raw = shlex.quote(image.name), shlex.quote(f"{image.name}.raw")
    if head.startswith(_EWF):
        name, command = "EWF image (E01)", f"ewfexport -t {raw} -f raw {path}"
    else:
        kinds = [kind for kind in _KINDS if head[kind.at :].startswith(kind.magic)]
        if not kinds:
            return ""
        kind = kinds[0].name
        name, command = f"{kind} image", f"qemu-img convert -f {kind} -O raw {path} {raw}"
    return (
        f"{image.name} is a {name}: compressed or scattered records in it are not found; carve a "
        f"raw copy: {command}"
    )


def sentences_of(images: Sequence[Image]) -> list[str]:
    """Say it of all images that are of virtual disks."""
    return [sentence for image in images if (sentence := sentence_of(image))]
