"""Host addresses as text; brackets around IPv6, as in a URL."""

from __future__ import annotations

from typing import Final

IPV4_BYTES: Final = 4
IPV6_BYTES: Final = 16
PORT_BYTES: Final = 4
IPV4_HOST_BYTES: Final = IPV4_BYTES + PORT_BYTES


def split_host(raw: bytes) -> tuple[bytes, int]:
    """Cut a host as records store it into address and port."""
    return raw[:-PORT_BYTES], int.from_bytes(raw[-PORT_BYTES:], "big", signed=True)


def ipv4_host(number: int) -> tuple[bytes, int]:
    """Give address and port of an IPv4 host that was read as one signed integer of 8 bytes."""
    return split_host(number.to_bytes(IPV4_HOST_BYTES, "big", signed=True))


def ipv6_host(high: int, low: int, port: int) -> tuple[bytes, int]:
    """Give address and port of an IPv6 host whose address was read as two signed integers."""
    halves = (half.to_bytes(IPV6_BYTES // 2, "big", signed=True) for half in (high, low))
    return b"".join(halves), port


def address_text(address: bytes) -> str:
    """Give `10.0.0.1` or `::1`; hex digits for bytes that are neither IPv4 nor IPv6."""
    if len(address) == IPV4_BYTES:
        return ".".join(map(str, address))
    if len(address) == IPV6_BYTES:
        import socket  # most records have IPv4 hosts and need not pay for it

        return socket.inet_ntop(socket.AF_INET6, address)
    return address.hex()


def host_text(address: bytes, port: int) -> str:
    """Give `10.0.0.1:54321` or `[::1]:54321`."""
    text = address_text(address)
    return f"[{text}]:{port}" if len(address) == IPV6_BYTES else f"{text}:{port}"
