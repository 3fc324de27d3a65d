"""RocketMQ's own jars, fetched once by Maven into a cache outside the tree.

The tests drive real brokers, so no Java source is kept in this repository: Maven resolves a
generated project that names the broker's modules and copies all jars into
`${RMQTOOL_CACHE:-~/.cache/rmqtool}/jars/<version>`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.kept import cache_directory

VERSIONS: Final = ("4.9.3", "5.3.3", "5.5.0")
"""The broker lines that fixtures exist of: 4.x, the commonest 5.x, the newest."""
LATEST: Final = "5.5.1"
"""The newest release: of few kinds of stores there are fixtures, which few tests take."""

_MODULES: Final = ("broker", "namesrv", "client", "tools", "store")
_OTHERS: Final = ("auth", "client", "container", "filter", "srvutil", "tools")
_MIXED: Final = {
    "5.3.4": ("5.3.3", (*_OTHERS, "common", "remoting", "tiered-store")),
    LATEST: ("5.5.0", (*_OTHERS, "acl", "namesrv")),
}
"""By release: modules that the registry has none of, and the nearest release, which fills in."""
BARE: Final = ("5.3.4",)
"""Releases whose own broker does not run with what fills in; their message stores do."""
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>oracle</groupId>
  <artifactId>oracle</artifactId>
  <version>1</version>
  <dependencyManagement>
    <dependencies>
{managed}
    </dependencies>
  </dependencyManagement>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY: Final = """\
    <dependency>
      <groupId>org.apache.rocketmq</groupId>
      <artifactId>rocketmq-{module}</artifactId>
      <version>{version}</version>
    </dependency>"""


class OracleMissing(RuntimeError):
    """Java or Maven is not there, or Maven could not get the jars."""


def mixtures() -> str:
    """Say which releases run with modules of which other one."""
    return "; ".join(
        f"{version}: {', '.join(sorted(lent))} of {lender}"
        for version, (lender, lent) in _MIXED.items()
    )


def missing_tools() -> str:
    """Return which of Java and Maven cannot be found, as a reason to skip; empty if both are."""
    absent = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"not on the path: {', '.join(absent)}" if absent else ""


def jar_directory(version: str) -> Path:
    """Return the directory with all jars of one RocketMQ version; fetch them if need be.

    Two processes may ask at once: each fetches into a directory of its own and renames it, and
    who comes second takes what the first one left.

    Raises:
        OracleMissing: the jars are not cached and cannot be fetched.
    """
    jars = cache_directory() / "jars" / version
    if jars.is_dir():
        return jars
    if reason := missing_tools():
        raise OracleMissing(reason)
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=jars.parent) as work:
        fetched = _fetch(version, Path(work))
        try:
            fetched.rename(jars)
        except OSError:
            if not jars.is_dir():  # else another process was quicker, and its jars are the same
                raise
    return jars


def module_jar(module: str, version: str, classifier: str = "") -> Path | None:
    """Return the jar of one module alone, or its sources; None where the registry has none.

    That there is none is kept, too: nobody asks twice.

    Args:
        module: as in `rocketmq-store`, without the first word.
        version: of RocketMQ.
        classifier: `sources` for the jar with the sources.

    Raises:
        OracleMissing: the jar is not cached, and Maven is not there.
    """
    name = "-".join(filter(None, ("rocketmq", module, version, classifier))) + ".jar"
    jar = cache_directory() / "modules" / name
    absent = jar.with_suffix(".absent")
    if jar.is_file() or absent.is_file():
        return jar if jar.is_file() else None
    if reason := missing_tools():
        raise OracleMissing(reason)
    jar.parent.mkdir(parents=True, exist_ok=True)
    artifact = f"org.apache.rocketmq:rocketmq-{module}:{version}:jar"
    artifact += f":{classifier}" if classifier else ""
    with tempfile.TemporaryDirectory(prefix=".one-", dir=jar.parent) as work:
        done = _maven("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={work}")
        if done.returncode and "find artifact" not in done.stdout:
            reason = f"Maven could not fetch {artifact}: {done.stdout[-2000:]}"
            raise OracleMissing(reason)
        if done.returncode:
            absent.touch()
            return None
        (Path(work) / name).replace(jar)
    return jar


def _maven(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - fixed arguments, no shell
        ["mvn", "-q", "-B", *arguments],  # noqa: S607 - Maven of the path is the one that is meant
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def _dependencies(modules: dict[str, str]) -> str:
    return "\n".join(
        _DEPENDENCY.format(module=name, version=version) for name, version in modules.items()
    )


def _fetch(version: str, work: Path) -> Path:
    lender, lent = _MIXED.get(version, (version, ()))
    other = dict.fromkeys(lent, lender)
    managed = _dependencies(other)
    dependencies = _dependencies({name: other.get(name, version) for name in _MODULES})
    pom = _POM.format(managed=managed, dependencies=dependencies)
    (work / "pom.xml").write_text(pom, encoding="utf-8")
    fetched = work / "jars"
    done = _maven("dependency:copy-dependencies", f"-DoutputDirectory={fetched}", cwd=work)
    if done.returncode:
        reason = f"Maven could not fetch RocketMQ {version}: {done.stdout[-2000:]}"
        raise OracleMissing(reason)
    return fetched
