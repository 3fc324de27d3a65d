"""What a release is made of: a lock with hashes, and a bill of materials that says the same."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.sbom import BILL, LOCK, ROOT, locked, text


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
