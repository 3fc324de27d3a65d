"""What a release is made of: a lock with hashes, and a bill of materials that says the same."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.sbom import BILL, LOCK, ROOT, locked, text

GLIBC: Final = ("2_17", "2_28")
FROM_SOURCE: Final = "pyspark"  # it has no wheel: one file for all machines, Python and jars


@pytest.mark.all_variants
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_wheels(machine: str, python: str, tmp_path: Path) -> None:
    """Each Python, on each kind of processor, finds a wheel of all that is locked, by its hash."""
    packages = re.split(r"\n(?=\S)", LOCK.read_text(encoding="utf-8"))
    wanted = [package for package in packages if not package.startswith(f"{FROM_SOURCE}=")]
    assert len(packages) - 1 == len(wanted)
    (tmp_path / "lock").write_text("\n".join(wanted), encoding="utf-8")
    words = ["--dry-run", "--ignore-installed", "--no-deps", "--require-hashes", "--quiet"]
    words += [
        "--only-binary=:all:",
        "--target",
        str(tmp_path / "there"),
        "--python-version",
        python,
    ]
    words += [f"--platform=manylinux_{version}_{machine}" for version in GLIBC]
    done = subprocess.run(  # noqa: S603 - our own lock
        [sys.executable, "-m", "pip", "install", *words, "-r", str(tmp_path / "lock")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr


def test_lock_agrees() -> None:
    """Each dependency of the base and of Spark is locked, within its bounds, with hashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    versions = defaultdict(list)
    for one in locked():
        versions[one.name].append(one.version)
        assert one.hashes, one.name
    for line in wanted:
        asked = Requirement(line)
        found = versions[canonicalize_name(asked.name)]
        assert found, line
        assert all(asked.specifier.contains(version) for version in found), line


def test_no_place() -> None:
    """The lock names packages and hashes, and no registry, index or path."""
    assert not re.search(r"://|--index|--find-links|@|file:", LOCK.read_text(encoding="utf-8"))


def test_bill(*, update_golden: bool) -> None:
    """The bill of materials is that of the lock; `--update-golden` writes it anew."""
    if update_golden:
        BILL.write_text(text(), encoding="utf-8")
    assert text() == BILL.read_text(encoding="utf-8")
