"""Bodies of messages, on request only: evidence holds personal data."""

from __future__ import annotations

import base64
import enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.findings.registry_commitlog import CL_DECOMP
from rmqtool.formats.compression import DEFAULT_CEILING_BYTES, above, decompress

if TYPE_CHECKING:
    from rmqtool.tables.decoders import BodyOwner

# Of bodies that one thread shows ahead of the writer, and of those that are written together.
BUDGET_BYTES: Final = 8 << 20
FIRST_PRINTED: Final = 0x20
ESCAPED: Final = 6  # characters of a byte before that, in JSON
_CONTROLS: Final = bytes(range(FIRST_PRINTED))


class BodyMode(enum.StrEnum):
    """How a body is shown."""

    NONE = "none"
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"
    REDACTED = "redacted"  # its digest only: two bodies can be told apart, and none be read


class BodyOptions(NamedTuple):
    """How bodies are shown."""

    mode: BodyMode = BodyMode.NONE  # see `BodyMode`
    raw: bool = False  # as stored; else compressed ones decompressed
    ceiling: int = DEFAULT_CEILING_BYTES  # bytes that one body may have
    decoder: str | None = None  # command or entry point that makes the text; see `decoders`


class Body(NamedTuple):
    """The columns of a body."""

    body: str | None = None  # text or digits
    body_b64: str | None = None  # exact bytes, where there is no text for them
    body_error: str | None = None  # why there is not one
    code: str | None = None  # of the finding, where that is damage

    @property
    def weight(self) -> int:
        """Bytes that it has as JSON, at most."""
        raw = (self.body or "").encode("utf-8", "surrogatepass")
        controls = len(raw) - len(raw.translate(None, _CONTROLS))
        return len(raw) + (ESCAPED - 1) * controls + len(self.body_b64 or "")


def show(
    stored: bytes, sys_flag: int, options: BodyOptions, owner: BodyOwner | None = None
) -> Body:
    """Give the columns of one body."""
    body = show_within(stored, sys_flag, options, options.ceiling, owner)
    return body or too_long(len(stored), options)


def show_within(
    stored: bytes, sys_flag: int, options: BodyOptions, budget: int, owner: BodyOwner | None = None
) -> Body | None:
    """Give the columns of one body; None for one of more bytes than the budget has.

    Args:
        stored: bytes of the record.
        sys_flag: of the record: whether the body is compressed, and how.
        options: how it is shown.
        budget: bytes.
        owner: the message; a decoder needs it.

    Raises:
        DecoderFailed: the decoder gives no more answers.
    """
    if len(stored) > options.ceiling:
        return too_long(len(stored), options)
    if len(stored) > budget:
        return None
    if options.raw:
        return _show(stored, options, owner)
    ceiling = min(options.ceiling, budget)
    inflated = decompress(stored, sys_flag, ceiling)
    if inflated.body is not None:
        return _show(inflated.body, options, owner)
    is_long = inflated == above(ceiling)
    if is_long and ceiling < options.ceiling:
        return None
    return Body(body_error=inflated.reason, code=None if is_long else str(CL_DECOMP))


def too_long(length: int, options: BodyOptions) -> Body:
    """Give the columns of a body that is not even read."""
    return Body(body_error=f"{length:,} bytes, {options.ceiling:,} are the limit")


def _decoded(body: bytes, decoder: str, owner: BodyOwner) -> Body:
    """Show a body by a decoder. Its bytes are there, too: nothing else is the message."""
    from rmqtool.tables.decoders import Undecoded, decoder_of  # few have one

    exact = base64.b64encode(body).decode("ascii")
    try:
        return Body(decoder_of(decoder).decode(owner, body), exact)
    except Undecoded as error:
        return Body(body_b64=exact, body_error=f"decoder: {error}")


def _show(body: bytes, options: BodyOptions, owner: BodyOwner | None) -> Body:
    if options.decoder is not None and owner is not None:
        return _decoded(body, options.decoder, owner)
    mode = options.mode
    if mode is BodyMode.HEX:
        return Body(body.hex())
    if mode is BodyMode.BASE64:
        return Body(body_b64=base64.b64encode(body).decode("ascii"))
    if mode is BodyMode.REDACTED:
        from hashlib import sha256  # a lookup need not pay for it

        return Body(f"sha256:{sha256(body).hexdigest()}")
    try:
        return Body(body.decode())
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
        return Body(text, base64.b64encode(body).decode("ascii"))
