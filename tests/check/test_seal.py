"""The commands that the page gives to seal a manifest, as their tools take them."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest

# What makes a key, by the tool; the page leaves it to who has one.
KEYS: Final = {
    "gpg": "gpg --batch --pinentry-mode loopback --passphrase '' --quick-generate-key signer",
    "ssh-keygen": "ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; "
    'echo "NAME $(cat .ssh/id_ed25519.pub)" > allowed_signers',
    "openssl": "openssl genrsa -out key.pem 2048; openssl pkey -in key.pem -pubout -out public.pem",
}


def of_page(tool: str) -> list[str]:
    """Give the lines of the page that begin with a tool: what signs, and what checks."""
    page = files("rmqtool.cli.manual").joinpath("texts", "validate.txt").read_text("utf-8")
    lines = page.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.startswith(f"    {tool} ")]


@pytest.mark.parametrize("tool", KEYS)
def test_seal(tmp_path: Path, tool: str) -> None:
    """A signature is made and holds; it does not hold for a manifest that was changed."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    manifest = tmp_path / "manifest.json"
    manifest.write_text("what was there")
    for name in (".gnupg", ".ssh"):
        (tmp_path / name).mkdir(mode=0o700)
    environment = {**os.environ, "HOME": str(tmp_path), "GNUPGHOME": str(tmp_path / ".gnupg")}

    def status(line: str) -> int:
        words = ["/bin/sh", "-ec", line]
        done = subprocess.run(  # noqa: S603 - the page's own words
            words, cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        return done.returncode

    sign, check = of_page(tool)
    try:
        assert [0, 0, 0] == [status(line) for line in (KEYS[tool], sign, check)]
        manifest.write_text("something else")
        assert status(check)
    finally:
        if tool == "gpg":
            status("gpgconf --kill all")
