"""All keys that a broker.conf may have, release by release, out of RocketMQ's own classes.

`python -m tests.truth.keys` fetches the jars of the modules of each known release and rewrites
`rmqtool/broker/keys.tsv`. What takes keys is what BrokerStartup hands to MixAll#properties2Object,
and the tiered store, which asks for them later (MessageStorePluginContext#registerConfiguration): a
key is each `set...` method of one argument that can be read from a text. What is not given is
what a new object has.
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.conf import KEYS
from rmqtool.broker.keys import COLUMNS, DOUBT, MARK, OF_THE_MACHINE, PATH
from rmqtool.broker.release import RELEASES, Version
from tests.broker.jars import jar_directory, module_jar
from tests.broker.jvm import Jvm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py4j.java_gateway import JavaObject

# Whose libraries classes are loaded with: the nearest of these at or before, then the last.
HELPERS: Final = ("4.9.3", "5.1.4", "5.2.0", "5.3.3", "5.5.0")
TYPES: Final = {
    **{name: name for name in ("int", "long", "double", "float", "boolean")},
    "java.lang.Integer": "int",
    "java.lang.Long": "long",
    "java.lang.Double": "double",
    "java.lang.Float": "float",
    "java.lang.Boolean": "boolean",
    "java.lang.String": "text",
}
SETTER: Final = re.compile(r"public [\w ]*?void [\w.$]+\.set(\w+)\(([\w.$]+)\)(?: throws .*)?")
GETTER: Final = re.compile(r"public [\w.$\[\]<>]+ [\w.$]+\.((?:get|is)\w+)\(\)")
# Two machines: another home directory, another number of processors.
MACHINES: Final = (("one", "2"), ("other", "64"))
OF_STARTUP: Final = {"listenPort": "10911", "haListenPort": "0"}  # BrokerStartup sets them first
HEAD: Final = (
    "# All keys of a broker.conf. Written by `python -m tests.truth.keys`; do not edit.",
    f"# (machine): depends on it. {DOUBT}: the registry has no jar; a release next to it knows it.",
)
SYSTEM_KEYS: Final = {  # BrokerStartup#properties2SystemEnv
    "rmqAddressServerDomain": "jmenv.tbsite.net",
    "rmqAddressServerSubGroup": "nsaddr",
}


class Source(NamedTuple):
    """A class that takes keys of a broker.conf."""

    name: str  # as it is called in the table
    module: str  # whose jar it is in
    classes: tuple[str, ...]  # its names, below org.apache.rocketmq, the newest first
    since: str = "4.9.0"  # the first release that may have it


SOURCES: Final = (
    Source("broker", "common", ("common.BrokerConfig",)),
    Source("store", "store", ("store.config.MessageStoreConfig",)),
    Source("server", "remoting", ("remoting.netty.NettyServerConfig",)),
    Source("client", "remoting", ("remoting.netty.NettyClientConfig",)),
    Source("auth", "auth", ("auth.config.AuthConfig",), "5.3.0"),
    Source(
        "tiered",
        "tiered-store",
        ("tieredstore.MessageStoreConfig", "tieredstore.common.TieredMessageStoreConfig"),
        "5.1.0",
    ),
)


class Setting(NamedTuple):
    """A key, as one release has it."""

    type: str
    default: str


# The keys of one source by release; None where its jar cannot be had.
Releases = dict[Version, dict[str, Setting] | None]


class Machine:
    """A Java process that loads classes of any release."""

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm
        self.hosts = self._hosts()
        self.nothing = jvm.gateway.new_array(jvm.java("java.lang.Object"), 0)

    def loader(self, jars: Sequence[Path], version: Version) -> JavaObject:
        """Give a loader of these jars, and of the libraries of a release for what they lack."""
        near = [helper for helper in HELPERS if Version.known(helper) <= version][-1:] or HELPERS[
            :1
        ]
        helpers = dict.fromkeys((*near, HELPERS[-1]))
        paths = [
            *jars,
            *(jar for helper in helpers for jar in sorted(jar_directory(helper).glob("*"))),
        ]
        urls = self.jvm.gateway.new_array(self.jvm.java("java.net.URL"), len(paths))
        for at, path in enumerate(paths):
            urls[at] = self.jvm.java("java.io.File")(str(path)).toURI().toURL()
        loader = self.jvm.java("java.net.URLClassLoader")(urls, None)
        # Loggers look for their providers there.
        self.jvm.java("java.lang.Thread").currentThread().setContextClassLoader(loader)
        return loader

    def settings(self, loader: JavaObject, name: str) -> dict[str, Setting]:
        """Give the keys that a class takes, with their defaults on this machine."""
        kind = self.jvm.java("java.lang.Class").forName(name, True, loader)
        made = kind.newInstance()
        methods = {str(method): method for method in kind.getMethods()}
        getters = {
            match[1]: method
            for text, method in methods.items()
            if (match := GETTER.fullmatch(text))
        }
        keys: dict[str, Setting] = {}
        for text in sorted(methods):
            match = SETTER.fullmatch(text)
            if match is None or match[2] not in TYPES:
                continue
            name = match[1]
            key, java_type = name[0].lower() + name[1:], TYPES[match[2]]
            getter = getters.get(f"get{name}") or getters.get(f"is{name}")
            # Not by its name: py4j takes classes of one name for the same, whoever loaded them.
            value = self._field(made, key) if getter is None else getter.invoke(made, self.nothing)
            keys[key] = Setting(java_type, self._plain(_text(value)))
        return keys

    def _field(self, made: JavaObject, key: str) -> object:
        """Give the value of a field that nothing hands out; None where there is none."""
        for field in made.getClass().getDeclaredFields():
            if field.getName() == key:
                field.setAccessible(True)
                return field.get(made)
        return None

    def _hosts(self) -> set[str]:
        here = self.jvm.java("java.net.InetAddress").getLocalHost()
        address = self.jvm.rocketmq("common.utils.NetworkUtil").getLocalAddress()
        return {str(here.getHostName()), str(here.getHostAddress()), str(address)}

    def _plain(self, default: str) -> str:
        if default in self.hosts or str(self.jvm.home) in default:
            return OF_THE_MACHINE
        return default.encode("unicode_escape").decode("ascii")


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _class_name(jar: Path, source: Source) -> str:
    with zipfile.ZipFile(jar) as opened:
        inside = {*opened.namelist()}
    names = (f"org.apache.rocketmq.{name}" for name in source.classes)
    return next(name for name in names if name.replace(".", "/") + ".class" in inside)


def read(versions: Sequence[Version]) -> dict[Source, Releases]:
    """Give what each source takes, by release."""
    of_machines: list[dict[Source, Releases]] = []
    with tempfile.TemporaryDirectory() as work:
        for name, processors in MACHINES:
            home = Path(work) / name
            home.mkdir()
            with Jvm(HELPERS[-1], home, options=[f"-XX:ActiveProcessorCount={processors}"]) as jvm:
                machine = Machine(jvm)
                of_machines.append({source: _read(machine, source, versions) for source in SOURCES})
    ours, others = of_machines
    return {source: _joined(ours[source], others[source]) for source in SOURCES}


def _read(machine: Machine, source: Source, versions: Sequence[Version]) -> Releases:
    found: Releases = {}
    for version in versions:
        if version < Version.known(source.since):
            found[version] = {}
            continue
        jars = {name: module_jar(name, str(version)) for name in (source.module, "common")}
        jar = jars[source.module]
        if jar is None:
            found[version] = None
            continue
        loader = machine.loader([path for path in jars.values() if path is not None], version)
        found[version] = machine.settings(loader, _class_name(jar, source))
    return found


def _joined(ours: Releases, others: Releases) -> Releases:
    """Say which defaults are those of a machine: two machines have two."""
    joined: Releases = {}
    for version, settings in ours.items():
        other = others[version]
        if settings is None or other is None:
            joined[version] = None
            continue
        joined[version] = {
            key: setting if setting == other[key] else setting._replace(default=OF_THE_MACHINE)
            for key, setting in settings.items()
        }
    return joined


class Known(NamedTuple):
    """Whether a release knows a key."""

    setting: Setting | None  # as it has it; None where it does not know it
    is_seen: bool  # or its neighbours say so, as the registry has no jar of it


def _known(key: str, releases: Releases, version: Version) -> Known:
    settings = releases[version]
    if settings is not None:
        return Known(settings.get(key), True)
    order = [release for release in releases if releases[release] is not None]
    before = [one for one in order if one < version][-1:]
    after = [one for one in order if one > version][:1]
    near = [(releases[version] or {}).get(key) for version in (*before, *after)]
    is_certain = len({setting is None for setting in near}) == 1 and len(near) > 1
    return Known(next((setting for setting in near if setting is not None), None), is_certain)


def rows(sources: Mapping[Source, Releases]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: by name, with those that no class takes."""
    of_keys: dict[str, list[Source]] = {}
    for source, releases in sources.items():
        for settings in releases.values():
            for key in settings or ():
                sharing = of_keys.setdefault(key, [])
                if source not in sharing:
                    sharing.append(source)
    versions = [*next(iter(sources.values()))]
    made = [_row(key, sharing, sources, versions) for key, sharing in of_keys.items()]
    span = f"{versions[0]}-"
    made += [(key, "", "system", "text", span, text, "") for key, text in SYSTEM_KEYS.items()]
    yield from sorted(made)


def _row(
    key: str,
    sharing: Sequence[Source],
    sources: Mapping[Source, Releases],
    versions: Sequence[Version],
) -> tuple[str, ...]:
    spans: list[list[str]] = []
    defaults: list[tuple[Version, str]] = []
    java_type, was_known = "", False
    for version in versions:
        states = [_known(key, sources[source], version) for source in sharing]
        known = [state for state in states if state.setting is not None]
        is_certain = any(state.is_seen for state in known) or all(state.is_seen for state in states)
        name = str(version) + ("" if is_certain else DOUBT)
        if known and not was_known:
            spans.append([name, name])
        elif known:
            spans[-1][1] = name
        was_known = bool(known)
        for state in known[:1]:
            assert state.setting is not None
            java_type = state.setting.type
            default = OF_STARTUP.get(key, state.setting.default)
            if not defaults or defaults[-1][1] != default:
                defaults.append((version, default))
    if spans[-1][1].rstrip(DOUBT) == str(versions[-1]):
        spans[-1][1] = ""
    earlier = [f"{text} before {since}" for (_, text), (since, _) in pairwise(defaults)]
    where = ",".join(source.name for source in sharing)
    text = " ".join(begin if begin == end else f"{begin}-{end}" for begin, end in spans)
    mark = MARK if key in KEYS else ""
    return key, mark, where, java_type, text, defaults[-1][1], "; ".join(earlier)


def table(sources: Mapping[Source, Releases]) -> str:
    """Give the text of the file."""
    absent = [
        f"{source.name} {version}"
        for source, releases in sources.items()
        for version, settings in releases.items()
        if settings is None
    ]
    head = [*HEAD, f"# No jar of: {', '.join(absent)}", "# " + "\t".join(COLUMNS)]
    return "\n".join([*head, *("\t".join(row) for row in rows(sources))]) + "\n"


if __name__ == "__main__":
    Path(PATH).write_text(table(read(RELEASES)), encoding="utf-8")
    sys.stdout.write(f"{PATH}: written\n")
