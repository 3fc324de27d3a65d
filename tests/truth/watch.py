"""What a new release of RocketMQ changed of all that rmqtool goes by: rule by rule, key by key.

`python -m tests.truth.watch 5.5.0 5.5.1` fetches the sources of both, and compares each method that
a rule (`broker/rules.py`), a docstring's `Source:` or a comment names. What was looked at before is
in `reviews.toml`: which rule follows a change, or why nothing does. What is left is to be looked
at: the exit code is 1, and `--diff` prints it. `--stores` lets the new release write
stores, and runs validate, startup and repair on them.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import re
import sys
import tokenize
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.broker.keys import MARK, known_keys
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rule, Rules
from tests.broker.jars import module_jar
from tests.truth import keys
from tests.truth.java import REST, Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PACKAGE: Final = Path(__file__).parents[2] / "rmqtool"
REVIEWS: Final = Path(__file__).with_name("reviews.toml")
MODULES: Final = (
    *("store", "broker", "common", "remoting", "client", "filter", "auth", "controller"),
    *("namesrv", "tools", "tiered-store"),
)
NAMED: Final = re.compile(r"(?:\b([A-Z]\w*(?:\.[A-Z]\w*)*))?#(\w+)|\b([A-Z]\w*(?:\.[A-Z]\w*)*)")
OF_RULE: Final = "rule "
FIELDS: Final = "its fields"
ACCESSOR: Final = re.compile(r"(get|set|is)[A-Z]\w*")


class Name(NamedTuple):
    """A method, or all of a class, that rmqtool goes by."""

    owner: str  # the class
    method: str  # of the class; empty for all of it

    def __str__(self) -> str:
        return f"{self.owner}#{self.method or FIELDS}"


Places = dict[Name, set[str]]  # where each is named


@dataclass
class Comparison:
    """What two releases do not have alike, of all that rmqtool names."""

    before: Sources
    after: Sources
    changed: dict[Name, set[str]] = field(default_factory=dict)  # with the places that name them
    count: int = 0  # of names that were compared
    # names of classes of which the registry has no sources, or that are not RocketMQ's
    unknown: set[str] = field(default_factory=set)

    def kind(self, name: Name) -> str:
        """Say how a method differs."""
        if name.method not in self.before.methods(name.owner):
            return "new"
        return "changed" if name.method in self.after.methods(name.owner) else "gone"

    def diff(self, name: Name) -> Iterator[str]:
        """Yield the lines that differ, a statement a line."""
        before, after = (
            _lines(sources.methods(name.owner).get(name.method, [])) for sources in self._both
        )
        yield from list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]

    @property
    def _both(self) -> tuple[Sources, Sources]:
        return self.before, self.after

    def take(self, name: Name, places: set[str]) -> None:
        """Compare a method, or each of a class."""
        if not any(name.owner in sources for sources in self._both):
            self.unknown.add(name.owner)
            return
        before, after = (sources.methods(name.owner) for sources in self._both)
        is_whole = not name.method
        methods = before.keys() | after.keys() if is_whole else {name.method}
        if is_whole and name.owner in CONFIGURATIONS:
            methods = {one for one in methods - {REST} if not ACCESSOR.fullmatch(one)}
        for method in methods:
            self.count += 1
            if before.get(method) != after.get(method):
                self.changed.setdefault(Name(name.owner, method), set()).update(places)


# Their fields and accessors are keys, which are compared by themselves.
CONFIGURATIONS: Final = {
    name.rpartition(".")[2] for source in keys.SOURCES for name in source.classes
}


def _lines(tokens: Sequence[str]) -> list[str]:
    return re.sub(r"([;{}]) ", r"\1\n", " ".join(tokens)).split("\n")


def names_in(text: str, *, with_classes: bool) -> Iterator[Name]:
    """Yield what a text names: `Class#method`, `#method` of the class before, and classes alone."""
    owner = ""
    for match in NAMED.finditer(re.sub(r"(\w)-\n\s*(?=[A-Z])", r"\1", text)):
        before, method, alone = match.groups()
        owner = (before or alone or owner).rpartition(".")[2]
        if method and owner:
            yield Name(owner, method)
        elif alone and with_classes:
            yield Name(owner, "")


@cache
def named() -> Places:
    """Give all that rules, docstrings and comments of the package name."""
    places: Places = defaultdict(set)
    for rule in vars(Rules).values():
        if isinstance(rule, Rule):
            for name in names_in(rule.source, with_classes=True):
                places[name].add(f"{OF_RULE}{rule.name}")
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        text = path.read_text(encoding="utf-8")
        for name in _in_module(text):
            places[name].add(where)
    return places


def _in_module(text: str) -> Iterator[Name]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse(text)):
        docstring = ast.get_docstring(node) if isinstance(node, documented) else None
        if docstring:
            before, _, after = docstring.partition("Source:")
            sources, _, rest = after.partition("\n\n")
            yield from names_in(f"{before}\n{rest}", with_classes=False)
            yield from names_in(sources, with_classes=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from names_in(token.string, with_classes=False)


def sources_of(*versions: str) -> tuple[list[Sources], list[str]]:
    """Give the sources of releases, and which modules are left out: not all have them."""
    jars = {
        module: [module_jar(module, version, "sources") for version in versions]
        for module in MODULES
    }
    absent = [module for module, paths in jars.items() if None in paths]
    read = [
        Sources(
            jar for module, paths in jars.items() if module not in absent and (jar := paths[at])
        )
        for at in range(len(versions))
    ]
    return read, absent


def compare(before: Sources, after: Sources) -> Comparison:
    """Compare all that is named."""
    comparison = Comparison(before, after)
    for name, places in named().items():
        comparison.take(name, places)
    return comparison


@dataclass(frozen=True)
class Review:
    """What was looked at for a release."""

    follows: dict[str, list[str]]  # methods, by the rule or the file that follows the change
    nothing: dict[str, str]  # why nothing follows, by method

    @classmethod
    def of(cls, version: str) -> Review:
        """Read it; empty for a release that nobody looked at."""
        found: dict[str, Any] = tomllib.loads(REVIEWS.read_text(encoding="utf-8")).get(version, {})
        return cls(found.get("follows", {}), found.get("nothing", {}))

    @property
    def methods(self) -> set[str]:
        """All methods that were looked at."""
        return {*self.nothing, *(name for names in self.follows.values() for name in names)}


def report(comparison: Comparison, review: Review) -> Iterator[str]:
    """Yield the lines about methods."""
    changed = {str(name): name for name in comparison.changed}
    yield "Rules that the release changed:"
    for rule, names in review.follows.items():
        kinds = [f"{name} ({comparison.kind(changed[name])})" for name in names if name in changed]
        if kinds:
            yield f"  {rule}: {', '.join(kinds)}"
    nothing = sorted(review.nothing.keys() & changed.keys())
    yield f"Changed, and no rule follows: {len(nothing)} methods, see {REVIEWS.name}"
    yield "To be looked at:"
    for name in to_look_at(comparison, review):
        places = ", ".join(sorted(comparison.changed[name]))
        yield f"  {name} ({comparison.kind(name)}): {places}"


def to_look_at(comparison: Comparison, review: Review) -> list[Name]:
    """Give what changed and was not looked at, what rules name first."""
    names = [name for name in comparison.changed if str(name) not in review.methods]

    def order(name: Name) -> tuple[bool, str]:
        places = comparison.changed[name]
        return not any(place.startswith(OF_RULE) for place in places), str(name)

    return sorted(names, key=order)


def changed_keys(before: str, after: str) -> Iterator[str]:
    """Yield each key that came, went, or has another type or default."""
    versions = [Version.known(before), Version.known(after)]
    sources = keys.read(versions)
    old, new = (_settings(sources, version) for version in versions)
    for key in sorted(old.keys() | new.keys()):
        mark = f" {MARK}" if key in known_keys() and known_keys()[key].mark else ""
        if key not in old:
            yield f"  + {key} ({new[key].type}, default {new[key].default or 'empty'}){mark}"
        elif key not in new:
            yield f"  - {key}{mark}"
        elif old[key] != new[key]:
            yield f"  ~ {key}: {' '.join(old[key])} -> {' '.join(new[key])}{mark}"


def _settings(sources: dict[keys.Source, keys.Releases], version: Version) -> dict[str, Any]:
    """Give the keys of a release; those of a class that one of the releases lacks are left out."""
    return {
        key: setting
        for releases in sources.values()
        if None not in releases.values()
        for key, setting in (releases[version] or {}).items()
    }


def main(arguments: Iterable[str] | None = None) -> int:
    """Compare two releases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", help="a release that is known, such as 5.5.0")
    parser.add_argument("after", help="the release that came out")
    parser.add_argument("--diff", action="store_true", help="print what is to be looked at")
    parser.add_argument("--stores", action="store_true", help="let the release write stores")
    asked = parser.parse_args(None if arguments is None else [*arguments])
    (before, after), absent = sources_of(asked.before, asked.after)
    comparison, review = compare(before, after), Review.of(asked.after)
    say = sys.stdout.write
    say(f"{asked.before} to {asked.after}: {comparison.count:,} methods compared\n")
    say(f"Not compared, as one release has no sources of them: {', '.join(absent) or 'none'}\n")
    say("".join(f"{line}\n" for line in report(comparison, review)))
    left = to_look_at(comparison, review)
    if asked.diff:
        for name in left:
            say(f"\n{name}\n" + "".join(f"  {line}\n" for line in comparison.diff(name)))
    say(f"Keys of a broker.conf ({MARK}: rmqtool goes by it):\n")
    say("".join(f"{line}\n" for line in changed_keys(asked.before, asked.after)))
    is_refuted = False
    if asked.stores:
        from tests.truth.watch_stores import judged  # what needs brokers only when asked

        for line, is_right in judged(asked.after):
            say(f"{line}\n")
            is_refuted = is_refuted or not is_right
    return int(bool(left) or is_refuted)


if __name__ == "__main__":
    sys.exit(main())
