"""TLS of a connection, and what else than RocketMQ's remoting protocol a port may speak.

Source: NettyRemotingServer#HandshakeHandler, TlsSystemConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from rmqtool.errors import RemotingError
from rmqtool.sending.options import shown

if TYPE_CHECKING:
    import ssl

PROBE_SECONDS: Final = 3.0  # that a server may take to begin TLS, where it closed a connection
_HTTP: Final = b"HTTP"
_SETTINGS: Final = 4  # kind of the first frame of HTTP/2: length (3 bytes), kind, flags, stream
_STREAM: Final = slice(4, 8)  # the last of flags, and three bytes of the stream: zero
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")  # alert, handshake


def encrypted(
    plain: socket.socket, context: ssl.SSLContext, address: tuple[str, int]
) -> socket.socket:
    """Begin TLS on a connection.

    Raises:
        RemotingError: the peer has no certificate that is trusted, or speaks no TLS.
    """
    import ssl

    try:
        return context.wrap_socket(plain, server_hostname=address[0])
    except ssl.SSLCertVerificationError as error:
        plain.close()
        reason = f"its certificate is not accepted: {error.verify_message}"
        raise RemotingError(address=shown(*address), reason=reason) from error
    except (OSError, ValueError) as error:
        plain.close()
        reason = f"does not begin TLS: {words_of(error)}"
        raise RemotingError(address=shown(*address), reason=reason) from error


def words_of(error: Exception) -> str:
    """Say what an error of a connection is: of TLS, the reason without OpenSSL's own numbers."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def takes_tls_only(address: tuple[str, int]) -> bool:
    """Tell whether a server that closed a plain connection begins TLS on another one."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent over it
    try:
        with (
            socket.create_connection(address, PROBE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=address[0]),
        ):
            return True
    except (OSError, ValueError):
        return False


def other_protocol(head: bytes) -> str:
    """Say what a server speaks, by the first bytes of its answer; empty for remoting.

    Args:
        head: four bytes, or eight.
    """
    if head.startswith(_HTTP):
        return "speaks HTTP: this is not a port of RocketMQ's remoting protocol"
    if head.startswith(_TLS_RECORDS):
        return "takes TLS only: --tls"
    # A frame of remoting has a header, whose length is not zero.
    if head[3] == _SETTINGS and head[_STREAM] == bytes(4):
        return "speaks HTTP/2, as the gRPC port of a proxy: give the address of a name server"
    return ""
