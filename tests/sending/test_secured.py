"""Secured clusters of real brokers take what is sent; what they refuse is one line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from rmqtool.query import ById, Lookup
from rmqtool.store.tree import open_store
from tests.broker.broker import SMALL_GEOMETRY, Broker, running_broker
from tests.broker.jars import missing_tools
from tests.cli.run import Run, rmqtool

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(missing_tools() and not os.environ.get("CI")), reason="needs Java"),
]
USER, SECRET = "our-mover", "a secret of 20 chars"
ACL_1: Final = f"""\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: {USER}
  secretKey: {SECRET}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: PUB|SUB
  topicPerms:
  - orders=PUB|SUB
"""
_AUTH: Final = "org.apache.rocketmq.auth"
ACL_2: Final = {
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider":
        f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider":
        f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": USER, "password": SECRET}),
    "innerClientAuthenticationCredentials":
        json.dumps({"accessKey": USER, "secretKey": SECRET}),
}  # fmt: skip


def openssl(*arguments: object) -> None:
    """Run OpenSSL."""
    subprocess.run(  # noqa: S603 - fixed arguments
        ["openssl", *map(str, arguments)],  # noqa: S607 - of the path
        check=True,
        capture_output=True,
    )


def certificate(place: Path, name: str, *more: object) -> tuple[Path, Path]:
    """Make a certificate that signs itself, and its key."""
    key, file = place / f"{name}.key", place / f"{name}.pem"
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}")
    openssl(*request, "-keyout", key, "-out", file, *more)
    return file, key


@contextmanager
def secured(version: str, home: Path, options: tuple[str, ...] = ()) -> Iterator[Broker]:
    """Run a broker that asks for access keys."""
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "plain_acl.yml").write_text(ACL_1, encoding="utf-8")
    settings: Mapping[str, object] = {"aclEnable": True} if version == "4.9.3" else ACL_2
    with running_broker(version, home, {**SMALL_GEOMETRY, **settings}, options=options) as broker:
        broker.create_topic("orders", 2)
        yield broker


def keys(path: Path, secret: str) -> Path:
    """Write a file with an access key."""
    path.write_text(f'accessKey: {USER}\nsecretKey: "{secret}"\n', encoding="utf-8")
    return path


def messages(path: Path, *topics: str) -> Path:
    """Write messages as `extract` does."""
    lines = [
        {"topic": topic, "body": f"{topic} é", "properties": {"UNIQ_KEY": f"{topic}-1"}}
        for topic in topics
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "version", ["4.9.3", pytest.param("5.3.3", marks=pytest.mark.all_variants), "5.5.0"]
)
def test_access_keys(version: str, tmp_path: Path) -> None:
    """With its secret a message is stored; without, or with another, one line says so."""
    file = messages(tmp_path / "f.jsonl", "orders")
    good, bad = keys(tmp_path / "good", SECRET), keys(tmp_path / "bad", "another secret")
    with secured(version, tmp_path / "home") as broker:

        def send(*more: object, env: Mapping[str, str] | None = None) -> Run:
            server = broker.names.address
            return rmqtool("send", file, "-n", server, "--quiet", *more, env=env)

        none = send()
        wrong = send("--credentials", bad)
        assert "try: --credentials FILE" in none.err
        assert "signature failed" in wrong.err.lower()
        assert f"try: check the secret and the permissions of access key {USER}" in wrong.err
        assert (2, 2) == (none.code, wrong.code)
        for run in (none, wrong):
            assert 2 == len(run.err.splitlines()), run.err
            assert "another secret" not in run.err
        done = send(env={"RMQTOOL_ACCESS_KEY": USER, "RMQTOOL_SECRET_KEY": SECRET})
        assert 0 == done.code, done.err
        (tmp_path / "f.jsonl.sent").unlink()
        assert 0 == send("--credentials", good).code
        broker.wait_dispatched()
    with Lookup(open_store(tmp_path / "home" / "store")) as lookup:
        hits = lookup.find(ById("orders-1")).hits
        assert ["orders é"] * 2 == [one.record.message.body.decode() for one in hits]


def expired_certificate(place: Path) -> tuple[Path, Path]:
    """Make a certificate that ended yesterday, and its key."""
    _, path = certificate(place, "old")
    raw = path.read_bytes()
    key = serialization.load_pem_private_key(raw, None)
    assert isinstance(key, rsa.RSAPrivateKey)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old")])
    today = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - timedelta(30))
        .not_valid_after(today - timedelta(1))
        .sign(key, hashes.SHA256())
    )
    file = place / "old.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return file, path


@pytest.mark.parametrize(
    "version", ["4.9.3", pytest.param("5.5.0", marks=pytest.mark.all_variants)]
)
def test_expired_certificate(version: str, tmp_path: Path) -> None:
    """A broker whose certificate has ended is refused, in one line."""
    file, key = expired_certificate(tmp_path)
    pkcs8 = key.with_suffix(".p8")
    openssl("pkcs8", "-topk8", "-nocrypt", "-in", key, "-out", pkcs8)
    given = {
        "enable": "true", "test.mode.enable": "false", "server.mode": "permissive",
        "server.certPath": file, "server.keyPath": pkcs8,
    }  # fmt: skip
    options = tuple(f"-Dtls.{name}={value}" for name, value in given.items())
    sent = messages(tmp_path / "f.jsonl", "orders")
    with running_broker(version, tmp_path / "home", SMALL_GEOMETRY, options=options) as broker:
        broker.create_topic("orders", 2)
        words = ("send", sent, "-n", broker.names.address, "--quiet", "--tls", "--tls-ca", file)
        run = rmqtool(*words)
    assert 2 == run.code
    reason = "its certificate is not accepted: certificate has expired"
    first, step = run.err.splitlines()
    assert f"rmqtool: {broker.names.address}: {reason}" == first
    assert step.startswith("rmqtool: try: ")


def test_tls(tmp_path: Path) -> None:
    """Over TLS with certificates on both sides it is stored; what is missing is one line."""
    server, server_key = certificate(tmp_path, "server")
    client, client_key = certificate(tmp_path, "client")
    pkcs8 = [path.with_suffix(".p8") for path in (server_key, client_key)]
    for key, path in zip((server_key, client_key), pkcs8, strict=True):
        openssl("pkcs8", "-topk8", "-nocrypt", "-in", key, "-out", path)
    given = {
        "enable": "true", "test.mode.enable": "false",
        "server.mode": "enforcing", "server.need.client.auth": "require",
        "server.authClient": "true", "server.trustCertPath": client,
        "server.certPath": server, "server.keyPath": pkcs8[0],
        "client.certPath": client, "client.keyPath": pkcs8[1],
    }  # fmt: skip
    options = tuple(f"-Dtls.{name}={value}" for name, value in given.items())
    file = messages(tmp_path / "f.jsonl", "orders")
    with running_broker("4.9.3", tmp_path / "home", SMALL_GEOMETRY, options=options) as broker:
        broker.create_topic("orders", 2)

        def refused(*more: object) -> str:
            run = rmqtool("send", file, "-n", broker.names.address, "--quiet", *more)
            assert 2 == run.code
            return run.err.splitlines()[0].removeprefix(f"rmqtool: {broker.names.address}: ")

        assert "takes TLS only: --tls" == refused()
        assert "its certificate is not accepted: self-signed certificate" == refused("--tls")
        trusted = ("--tls", "--tls-ca", server)
        assert "certificate" in refused(*trusted)
        own = ("--tls-cert", client, "--tls-key", client_key)
        run = rmqtool("send", file, "-n", broker.names.address, "--quiet", *trusted, *own)
        assert 0 == run.code, run.err
        broker.wait_dispatched()
        assert 1 == sum(broker.store.getMaxOffsetInQueue("orders", one) for one in range(2))
