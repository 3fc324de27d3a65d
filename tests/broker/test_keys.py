"""The table of all keys of a broker.conf is what RocketMQ's own classes take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from rmqtool.broker.conf import KEYS
from rmqtool.broker.keys import MARK, OF_THE_MACHINE, PATH, ReleaseSpan, known_keys
from rmqtool.broker.release import RELEASES, Version
from tests.truth import keys

VERSIONS: Final = tuple(map(Version.known, ("4.9.3", "5.3.3", "5.5.1")))


def test_marks() -> None:
    """The keys that rmqtool goes by are marked, and no others; each is a key of some release."""
    assert KEYS.keys() == {row.name for row in known_keys().values() if row.mark == MARK}


def test_defaults() -> None:
    """What rmqtool takes where a key is not given is the default of all releases."""
    for name, key in KEYS.items():
        row = known_keys()[name]
        ours = str(key.default).lower() if isinstance(key.default, bool) else str(key.default)
        assert row.default in {ours, OF_THE_MACHINE}, name
        assert not row.earlier, name


def test_form() -> None:
    """A line a key, by name; no two alike; each of releases that are known."""
    lines = [line for line in Path(PATH).read_text().splitlines() if not line.startswith("#")]
    names = [line.partition("\t")[0] for line in lines]
    assert sorted({*names}) == names
    assert 500 < len(names)
    for row in known_keys().values():
        for span in row.spans:
            assert {span.first, span.last or span.first} <= {*RELEASES}, row.name


def test_spans() -> None:
    """A key may be of one release alone, of some, or of all from one on."""
    one, some, still = map(ReleaseSpan.parse, ("4.9.8", "5.1.0-5.1.2?", "5.3.4?-"))
    assert (Version(4, 9, 8), Version(4, 9, 8)) == one
    assert Version(5, 1, 2) in some
    assert Version(5, 1, 3) not in some
    assert Version(5, 3, 3) not in still
    assert Version(5, 5, 9) in still


def test_loaded_when_asked() -> None:
    """What looks up no key does not read the table."""
    code = (
        "import sys; from rmqtool.broker import keys, conf;"
        "assert not keys.known_keys.cache_info().currsize;"
        "assert 'difflib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own words


@pytest.mark.broker
def test_like_classes() -> None:
    """The classes of a release take what the table says, of that type, with that default."""
    rows = known_keys()
    sources = keys.read(VERSIONS)
    for version in VERSIONS:
        taken: dict[str, keys.Setting] = {}
        for releases in sources.values():
            for key, setting in (releases[version] or {}).items():
                taken.setdefault(key, setting)
        # Of some modules the registry has no jar: their keys may be missing, but no others.
        absent = {source.name for source in sources if sources[source][version] is None}
        known = {name for name, row in rows.items() if row.is_known_to(version)}
        for name in known ^ taken.keys():
            assert rows[name].taken_by in {"system", *absent}, name
        for name, setting in taken.items():
            assert rows[name].type == setting.type, name
            if not rows[name].earlier and name not in keys.OF_STARTUP:
                assert rows[name].default == setting.default, name
