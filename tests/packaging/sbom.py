"""The bill of materials of a release, CycloneDX JSON, from requirements.lock and pyproject.toml.

    python -m tests.packaging.sbom > rmqtool.cdx.json

The lock is made by:

    uv pip compile pyproject.toml --extra spark --universal --python-version 3.11
        --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate
        -o requirements.lock
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "requirements.lock"
BILL: Final = ROOT / "rmqtool.cdx.json"
LINE: Final = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ]+)(?: ; (?P<marker>.*?))? \\$")
HASH: Final = re.compile(r"^    --hash=sha256:([0-9a-f]{64})(?: \\)?$")


class Locked(NamedTuple):
    """One release of a package."""

    name: str
    version: str
    marker: str  # where it is installed; empty for everywhere
    hashes: tuple[str, ...]  # of its files, sha256


def locked() -> list[Locked]:
    """Read the lock. Raises ValueError: a line is neither a package nor a hash."""
    found: list[Locked] = []
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        if package := LINE.match(line):
            marker = package["marker"] or ""
            found.append(Locked(package["name"], package["version"], marker, ()))
        elif digest := HASH.match(line):
            found[-1] = found[-1]._replace(hashes=(*found[-1].hashes, digest[1]))
        else:
            raise ValueError(line)
    return found


def bill() -> dict[str, Any]:
    """Give the document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = f"pkg:pypi/rmqtool@{project['version']}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "rmqtool",
                "version": project["version"],
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": [_component(one) for one in locked()],
    }


def _component(one: Locked) -> dict[str, Any]:
    purl = f"pkg:pypi/{one.name}@{one.version}"
    facts = [("marker", one.marker)] if one.marker else []
    facts += [("file-sha256", digest) for digest in one.hashes]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": one.name,
        "version": one.version,
        "purl": purl,
        "properties": [{"name": f"rmqtool:{name}", "value": value} for name, value in facts],
    }


def text() -> str:
    """Give the document as it is in a release."""
    return json.dumps(bill(), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
