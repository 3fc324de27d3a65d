"""What people have in place of a store root: an archive, or a directory above one store.

A command line that names a plain store pays for a listing of it, no more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rmqtool.cli.declaration import parameters
from rmqtool.cli.exits import DONE, IN_PART, NO, say
from rmqtool.errors import NotAStore, RmqtoolError, UsageError
from rmqtool.render.look import Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.archives.opening import OpenArchives
    from rmqtool.cli.declaration import Command, Parameter
    from rmqtool.store.place import Place

SHOWN: Final = 5  # stores that are named where one has to be chosen
WRITING: Final = ("in_place", "undo")  # of a command that changes the store


def run(command: Command) -> int:
    """Run a command on what its arguments mean; 3 where an archive is not whole.

    Raises:
        RmqtoolError: it cannot be done.
    """
    if not command.is_declared:
        return command.run()
    _doubt_release(command)
    if _value(command, "format") == Format.JSON_SCHEMA:
        return command.describe()
    places = {
        parameter.name: parameter for parameter in parameters(type(command)) if _opens(parameter)
    }
    unusual = {path: parameter for path, parameter in _paths(command, places) if not is_plain(path)}
    if not unusual:
        return command.run()
    from rmqtool.archives.opening import opening

    with opening(_limit(command)) as opened:
        meant = {
            path: _meant(path, command, opened, may_change=parameter.is_argument)
            for path, parameter in unusual.items()
        }
        for sentence in opened.notes:
            if not _value(command, "quiet") or not opened.is_whole:
                say(sentence)
        code = replace(command, **_replaced(command, places, meant)).run()  # type: ignore[type-var]
        return IN_PART if not opened.is_whole and code in {DONE, NO} else code


def _doubt_release(command: Command) -> None:
    """Say that a release of a known line is not known itself.

    Raises:
        UsageError: it is no version, or its rules are not known.
    """
    version = _value(command, "broker_version")
    if isinstance(version, str) and not _value(command, "rules_of"):
        from rmqtool.broker.release import Version

        if (doubt := Version.parse(version).doubt) and not _value(command, "quiet"):
            say(doubt)


def is_plain(path: str) -> bool:
    """Tell whether a path needs no look here: a store root, a file, or nothing at all."""
    from rmqtool.store.address import archive_of, is_pattern
    from rmqtool.store.place import Place
    from rmqtool.store.root import is_store

    if not path or Place.is_uri(path) or is_pattern(path):
        return True
    if archive_of(path) is not None:
        return False
    try:
        return is_store(Place.of(path).names())
    except RmqtoolError:
        return True  # a file, or whoever reads it says what is wrong


def _opens(parameter: Parameter) -> bool:
    return parameter.declaration.opens


def _paths(command: Command, places: dict[str, Parameter]) -> Iterator[tuple[str, Parameter]]:
    for name, parameter in sorted(places.items(), key=lambda place: place[1].is_argument):
        value = getattr(command, name)
        for path in value if parameter.is_many else [value or ""]:
            yield path, parameter


def _replaced(
    command: Command, places: dict[str, Parameter], meant: dict[str, str]
) -> dict[str, object]:
    """Give the arguments of a command with what was meant by them."""
    fields: dict[str, object] = {}
    for name, parameter in places.items():
        value = getattr(command, name)
        fields[name] = (
            tuple(meant.get(path, path) for path in value)
            if parameter.is_many
            else meant.get(value, value)
        )
    return fields


def _value(command: Command, name: str) -> Any:  # noqa: ANN401 - options are of many types
    """Give an option by its name; None where the command has no such option."""
    for parameter in parameters(type(command)):
        if parameter.name == name:
            return getattr(getattr(command, parameter.group) if parameter.group else command, name)
    return None


def _limit(command: Command) -> int | None:
    text = _value(command, "unpack_limit")
    if text is None:
        return None
    from rmqtool.ranges import size

    return size("--unpack-limit", text)


def _meant(path: str, command: Command, opened: OpenArchives, *, may_change: bool) -> str:
    """Give the path of the store that is meant.

    Args:
        path: as typed.
        command: that reads it.
        opened: the archives.
        may_change: whether it is what the command changes, if it changes anything.

    Raises:
        UsageError: there are several, or the command would change an archive.
        UnreadablePath: the archive cannot be read.
        WriteFailed: there is no room to unpack it.
    """
    from rmqtool.store.address import archive_of
    from rmqtool.store.place import Place

    in_archive = archive_of(path)
    if in_archive is None:
        return _below(path, Place.of(path), opened, f"{path.rstrip('/')}/", command)
    archive, inner = in_archive
    if may_change:
        _refuse(archive, command)
    from rmqtool.render.progress import progress

    with progress("unpack", None, quiet=bool(_value(command, "quiet"))) as advance:
        top = opened.add(archive, advance)
    if inner:
        return f"{archive}!{inner}"
    from rmqtool.archives.opening import start_of

    chosen = _below(path, top, opened, f"{archive}!", command)
    start = start_of(top) if chosen == path else top
    return f"{archive}!{start.location.partition('!/')[2]}" if chosen == path else chosen


def _below(path: str, top: Place, opened: OpenArchives, prefix: str, command: Command) -> str:
    """Give the one store below a directory; the directory itself where it is no parent of one.

    Raises:
        UsageError: there are several.
    """
    import shlex
    from itertools import islice

    from rmqtool.store.recognise import recognise
    from rmqtool.store.root import stores_below

    if _value(command, "recursive"):
        return prefix if prefix.endswith("!") else path
    try:
        recognise(top)
    except NotAStore:
        pass
    except RmqtoolError:
        return path
    else:
        return prefix if prefix.endswith("!") else path
    stores = list(islice(stores_below(top), SHOWN + 1))
    names = [f"{prefix}{store.location[len(top.location) :].strip('/')}" for store in stores]
    if len(names) > 1:
        more = " ..." if len(names) > SHOWN else ""
        listed = " ".join(map(shlex.quote, names[:SHOWN])) + more
        reason = f"{path} holds several stores, name one: {listed}"
        step = shlex.join(["rmqtool", "validate", path, "--recursive"])
        raise UsageError(option="STORE", reason=reason, step=step)
    if not names:
        return path
    opened.notes.append(f"reading {names[0]}")
    return names[0]


def _refuse(archive: str, command: Command) -> None:
    """Refuse a command that would change an archive.

    Raises:
        UsageError: it is one.
    """
    chosen = next((name for name in WRITING if _value(command, name)), None)
    if chosen is None:
        return
    import shlex

    from rmqtool.store.containers import unpacking

    name = type(command).__module__.rpartition(".")[2].replace("_", "-")
    step = shlex.join(["rmqtool", name, archive, "--output", "NEW"])
    if chosen == "undo":
        unpack = unpacking(archive, shlex.quote(archive))
        step = f"mkdir DIR && {unpack}; then rmqtool {name} DIR --undo"
    option = f"--{chosen.replace('_', '-')}"
    raise UsageError(option=option, reason=f"{archive} is an archive: it is only read", step=step)
