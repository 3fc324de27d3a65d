"""Who asks, and over what: access keys of secured clusters, and TLS.

A request is signed as RocketMQ's own clients sign it, the same for ACL 1.0 (4.x) and 2.0 (5.3 on):
HMAC-SHA1 of the values of its fields, in the order of their names, and of its body.
Source: AclClientRPCHook, AclUtils#combineRequestContent, PlainAccessValidator#parse,
DefaultAuthenticationContextBuilder, SessionCredentials, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import UsageError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from rmqtool.sending.options import SendOptions

ACCESS_KEY, SIGNATURE, SECURITY_TOKEN = "AccessKey", "Signature", "SecurityToken"
ENVIRONMENT: Final = ("RMQTOOL_ACCESS_KEY", "RMQTOOL_SECRET_KEY", "RMQTOOL_SECURITY_TOKEN")
LARGEST_FILE: Final = 64 << 10  # bytes
_LINE: Final = re.compile(
    r"\s*(accessKey|secretKey|securityToken)\s*[:=]\s*(.*?)\s*", re.IGNORECASE
)


class Credentials(NamedTuple):
    """An access key with its secret."""

    access_key: str
    secret_key: str
    security_token: str = ""  # empty where there is none

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r})"  # a secret is in no log and no report

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Give the fields of a request with its signature."""
        named = {**fields, ACCESS_KEY: self.access_key}
        if self.security_token:
            named[SECURITY_TOKEN] = self.security_token
        content = "".join(named[name] for name in sorted(named)).encode() + body
        digest = hmac.digest(self.secret_key.encode(), content, "sha1")
        return {**named, SIGNATURE: base64.b64encode(digest).decode()}


class Access(NamedTuple):
    """How requests are made."""

    credentials: Credentials | None = None  # None signs nothing
    tls: ssl.SSLContext | None = None  # None is plain TCP


PLAIN: Final = Access()


def access_of(options: SendOptions) -> Access:
    """Read credentials and certificates that options name.

    Raises:
        UsageError: a file cannot be read, or does not hold what it must.
    """
    return Access(_credentials(options.credentials), _tls(options) if options.tls else None)


def _credentials(path: str | None) -> Credentials | None:
    if path is not None:
        named = dict(_named(path))
        return _complete(named.get, ("accesskey", "secretkey", "securitytoken"), path)
    if not any(os.environ.get(name) for name in ENVIRONMENT):
        return None
    return _complete(os.environ.get, ENVIRONMENT, "the environment")


def _complete(get: Callable[[str], str | None], names: tuple[str, ...], where: str) -> Credentials:
    access_key, secret_key, token = (get(name) or "" for name in names)
    if not access_key or not secret_key:
        missing = names[1] if access_key else names[0]
        raise UsageError(
            option="--credentials",
            reason=f"{where} has no {missing}",
            step="a file with the lines accessKey=NAME and secretKey=SECRET, as conf/tools.yml",
        )
    return Credentials(access_key, secret_key, token)


def _named(path: str) -> list[tuple[str, str]]:
    """Read the lines of a file: of conf/tools.yml, or properties as RocketMQ's `key` file has."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read(LARGEST_FILE)
    except OSError as error:
        raise UsageError(option="--credentials", reason=f"{path}: {error.strerror}") from error
    lines = (_LINE.fullmatch(line) for line in text.splitlines())
    return [(line[1].lower(), line[2].strip("\"'")) for line in lines if line]


def _tls(options: SendOptions) -> ssl.SSLContext:
    """Make a TLS context that verifies the peer's certificate.

    Names in certificates are not compared, as RocketMQ's clients do not: brokers are known by
    addresses that name servers tell.
    """
    import ssl

    option, path = "--tls-ca", options.tls_ca
    try:
        context = ssl.create_default_context(cafile=path)
        context.check_hostname = False
        if options.tls_cert is not None:
            option, path = "--tls-cert", options.tls_cert
            context.load_cert_chain(path, options.tls_key, password=_no_password)
    except ssl.SSLError as error:
        reason = f"{path}: no certificate and key in PEM can be read: {error.reason or error}"
        raise UsageError(option=option, reason=reason) from error
    except (OSError, ValueError) as error:
        reason = f"{path}: {getattr(error, 'strerror', None) or error}"
        raise UsageError(option=option, reason=reason) from error
    return context


def _no_password() -> str:
    reason = "the key is encrypted; write it without a password: openssl pkey -in KEY -out FILE"
    raise ValueError(reason)
