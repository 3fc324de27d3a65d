"""A `Layout`: one fixed-size structure, declared once in construct, and all that follows from it.

The numpy dtype, the Arrow schema, the field table of the hex view, the kernels' field positions
and the formats manual page are derived here and nowhere else. Only signed big-endian integers,
`Bytes(n)` and `"name" / Type * "doc"` may stand in a Layout: formats describe, checks judge.
numpy and pyarrow are imported when first asked for, so that a single lookup does not pay for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from struct import Struct as Packer
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from construct import Bytes, Construct, ConstructError, FormatField, Renamed, Struct

from rmqtool.errors import DecodeError, Truncated

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

SIGNED_BIG_ENDIAN: Final = frozenset({">b", ">h", ">l", ">q"})


Raw: TypeAlias = bytes | bytearray | memoryview


def big_endian(raw: Raw) -> int:
    """Read a signed big-endian integer of as many bytes as there are; 0 of none."""
    return int.from_bytes(raw, "big", signed=True)


def unsigned(raw: Raw) -> int:
    """Read an unsigned big-endian integer, which is what some of Java's code makes of a length."""
    return int.from_bytes(raw, "big")


class NotDescriptive(TypeError):
    """A Layout holds a construct that asserts, skips, maps or points."""


class Field(NamedTuple):
    """One field of a Layout."""

    name: str  # RocketMQ's own name in snake case
    position: int  # first byte, counted from the start of the structure
    size: int  # bytes
    is_integer: bool  # signed big-endian integer; otherwise a run of bytes
    doc: str  # what it means, one phrase, with its unit

    @property
    def end(self) -> int:
        """Position past its last byte."""
        return self.position + self.size

    def of(self, raw: Raw, start: int = 0) -> int:
        """Read it, a signed integer, from a structure that begins at `start` of some bytes.

        Where the bytes end early, so does the number: who cannot exclude that looks at lengths.
        """
        return big_endian(raw[start + self.position : start + self.position + self.size])

    def column(self, rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Read it from many structures.

        Args:
            rows: uint8, shape (n, bytes of a structure at least).

        Returns:
            int64, shape (n,).
        """
        import numpy as np

        raw = np.ascontiguousarray(rows[:, self.position : self.end])
        values: npt.NDArray[np.int64] = raw.view(self.numpy_type)[:, 0].astype(np.int64)
        return values

    def build(self, value: int) -> bytes:
        """Give the bytes of a value. Raises OverflowError: it does not fit."""
        return value.to_bytes(self.size, "big", signed=True)

    @property
    def struct_code(self) -> str:
        """Give the code of the `struct` module; big-endian codes have the sizes of construct's."""
        return {1: "b", 2: "h", 4: "i", 8: "q"}[self.size] if self.is_integer else f"{self.size}s"

    @property
    def numpy_type(self) -> str:
        """Give the dtype code: by length, as np.dtype(">l") has 8 bytes where Int32sb has 4."""
        return f">i{self.size}" if self.is_integer else f"V{self.size}"  # "S" drops trailing zeros


@dataclass(frozen=True, eq=False)
class Layout:
    """A named, fixed-size structure."""

    name: str  # snake case, unique over the registry
    struct: Struct  # the construct declaration
    doc: str = ""  # what it is and where it lies, one phrase

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """All fields, in order, without holes."""
        fields, position = [], 0
        for subcon in self.struct.subcons:
            fields.append(_field(subcon, position))
            position += fields[-1].size
        return tuple(fields)

    @cached_property
    def size(self) -> int:
        """Bytes of one record."""
        return sum(field.size for field in self.fields)

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    def __getitem__(self, name: str) -> Field:
        return self._by_name[name]

    @cached_property
    def positions(self) -> dict[str, int]:
        """First byte of each field, by name."""
        return {field.name: field.position for field in self.fields}

    @cached_property
    def packer(self) -> Packer:
        """The same fields for `struct`: `packer.unpack_from(raw, position)` gives their values.

        Construct interprets its declaration anew for each record, at ten times the cost; the parity
        test proves that both see the same.
        """
        return Packer(">" + "".join(field.struct_code for field in self.fields))

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """A big-endian structured dtype of exactly `size` bytes."""
        import numpy as np

        return np.dtype([(field.name, field.numpy_type) for field in self.fields])

    @cached_property
    def arrow(self) -> pa.Schema:
        """Native columns: signed integers and plain binary, all nullable."""
        import pyarrow as pa

        return pa.schema(
            [
                pa.field(
                    field.name,
                    getattr(pa, f"int{field.size * 8}")() if field.is_integer else pa.binary(),
                    metadata={"doc": field.doc},
                )
                for field in self.fields
            ]
        )

    def parse(self, raw: bytes, *, path: str = "<bytes>", position: int = 0) -> dict[str, Any]:
        """Read one record from the first `size` bytes of `raw`.

        Args:
            raw: at least `size` bytes.
            path: where they came from, for the error.
            position: where they lay in that file, for the error.

        Raises:
            Truncated: fewer than `size` bytes are there.
        """
        if len(raw) < self.size:
            reason = f"{len(raw):,} bytes are there, {self.size:,} are needed"
            raise Truncated(path=path, position=position, field=self.name, reason=reason)
        return dict(zip(self.positions, self.packer.unpack_from(raw), strict=True))

    def build(self, values: dict[str, Any]) -> bytes:
        """Give the bytes of one record.

        Raises:
            DecodeError: a value is missing or does not fit its field.
        """
        try:
            return self.struct.build(values)
        except (ConstructError, KeyError, ValueError, TypeError) as error:
            reason = f"cannot be written: {error}"
            raise DecodeError(
                path="<values>", position=0, field=self.name, reason=reason
            ) from error


def _field(subcon: Construct[Any, Any], position: int) -> Field:
    """Read name, size, type and text off one construct."""
    name, doc = subcon.name, ""
    while isinstance(subcon, Renamed):  # `"n" / X * "doc"` is two Renamed deep
        doc = doc or str(subcon.docs)
        subcon = subcon.subcon
    if not name:
        message = f"a field at {position} has no name"
        raise NotDescriptive(message)
    if isinstance(subcon, Bytes) and isinstance(subcon.length, int):
        return Field(name, position, subcon.length, is_integer=False, doc=doc)
    if isinstance(subcon, FormatField) and subcon.fmtstr in SIGNED_BIG_ENDIAN:
        return Field(name, position, subcon.length, is_integer=True, doc=doc)
    message = f"{name}: {subcon!r} is neither a signed big-endian integer nor a run of bytes"
    raise NotDescriptive(message)
