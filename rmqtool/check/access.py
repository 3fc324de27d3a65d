"""Judge owner and mode of a store's files: FS-OWNER.

Whoever looks after a store as root leaves files of root, and the broker's user cannot open these.
Source: DefaultMappedFile#init, MappedFileQueue#load, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_layout import FS_OWNER
from rmqtool.store.access import held, owner_name, user_named, usual_user
from rmqtool.store.branch import BranchKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.store.access import Held, User


def check(inspection: Inspection) -> Iterator[Finding]:
    """Say what the broker's user cannot use, and what belongs to somebody else than most."""
    store, name = inspection.store, inspection.options.as_user
    if store.asked.kind is not BranchKind.STORE:
        return
    everything = held(store)
    usual = usual_user(everything)
    user = usual if name is None else user_named(name)
    if user is None or usual is None:
        return
    reported: dict[str, tuple[int, bool]] = {}
    for one in everything:
        verdict = one.owner, one.allows(user)
        if verdict == (usual.uid, True):
            continue
        if reported.get(_reported_above(one.path, reported)) != verdict:
            reported[one.path] = verdict
            yield _finding(one, user, usual)


def _reported_above(path: str, reported: dict[str, tuple[int, bool]]) -> str:
    """Give the nearest directory above a path of which something was said; empty for none."""
    while "/" in path:
        path = path.rpartition("/")[0]
        if path in reported:
            return path
    return ""


def _finding(one: Held, user: User, usual: User) -> Finding:
    owner = owner_name(one.owner)
    actual = f"owner {owner}, mode {one.mode:04o}"
    below = " and what lies in it" if one.is_directory else ""
    if one.allows(user):
        message = f"it{below} belongs to {owner}, most of the store to {usual.name}"
        return finding(
            FS_OWNER,
            At(one.path),
            message,
            expected=f"owner {usual.name}",
            actual=actual,
            severity=Severity.NOTE,
        )
    message = f"user {user.name} cannot read and write it{below}"
    expected = f"owner {user.name}, mode {'0755' if one.is_directory else '0644'}"
    return finding(FS_OWNER, At(one.path), message, expected=expected, actual=actual)
