"""Configuration that is missing, or lies in a database that no broker opens: what the log proves.

Nothing is written unless it is asked for: a backup of the configuration holds more. Brokers that
keep it in RocksDB take a JSON file into a new database at their next start; those of version 2 do
not, and their database is not written.
Source: RocksDBTopicConfigManager#merge, ConfigStorage, 5.1.4 to 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_rocksdb import RD_BLOCK, RD_OPEN, RD_ORPHAN, RD_VERSION
from rmqtool.findings.registry_state import CF_GONE, CF_TOPICS, CO_GONE, DO_GONE, TC_GONE
from rmqtool.formats.config_names import DELAYS_JSON, GROUPS_JSON, OFFSETS_JSON, TOPICS_JSON
from rmqtool.formats.rocksdb_databases import MANAGERS, VERSION_2, managers_in
from rmqtool.repair.log.content import Content
from rmqtool.repair.state.config import neutral
from rmqtool.repair.state.offsets import queue_counts, topics_text
from rmqtool.repair.state.timer import timer_check
from rmqtool.store.artefact import TIMER_CHECK
from rmqtool.store.config_sources import (
    CONFIG,
    DATABASES,
    ConfigPresence,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter

ALL: Final = (TOPICS_JSON, GROUPS_JSON, OFFSETS_JSON, DELAYS_JSON, TIMER_CHECK)
MISSING: Final = {
    CF_GONE: ALL,
    CF_TOPICS: (TOPICS_JSON,),
    CO_GONE: (OFFSETS_JSON,),
    DO_GONE: (DELAYS_JSON,),
    TC_GONE: (TIMER_CHECK,),
}
UNREADABLE: Final = frozenset({RD_OPEN, RD_BLOCK, RD_VERSION, RD_ORPHAN})
RESET: Final = (
    "bring it back from a backup; without one, --reset-config writes what the log proves, and says "
    "what is lost"
)
NEW_FILE: Final = "the settings that the log proves, in a file that brokers load"
NEW_DATABASE: Final = "brokers make a new one, and take the JSON files into it"
TOPICS_LOST: Final = "permissions, attributes and topics without a queue"
TIMERS_LOST: Final = "which timers of the last second were delivered: these may come again"
NO_TIMER_LOG: Final = (
    "bring it back from a backup: without records in the timer log nothing tells how far the timer "
    "had come in its topic"
)
SECOND_VERSION: Final = (
    f"by hand: {VERSION_2} (configManagerVersion=v2) is the only place that brokers read this "
    "from, and repair does not write it. Bring it back from a backup. Without one, start the "
    "broker and at once create each topic: "
    "mqadmin updateTopic -n NAMESRV -c CLUSTER -t TOPIC -r N -w N; N is "
)
MOST_NAMED: Final = 20  # topics in a remedy


def edit(
    writer: EditWriter, survey: LogSurvey, findings: list[Finding], obstacle: str, *, resets: bool
) -> None:
    """Write configuration that is missing if that is asked for; else say what helps.

    Args:
        writer: takes the edits.
        survey: of the store.
        findings: what is wrong.
        obstacle: why nothing can be judged by the log; empty when it can.
        resets: what is missing is written.
    """
    defects = [finding for finding in findings if finding.severity is not Severity.NOTE]
    missing = [defect for defect in defects if defect.code in MISSING]
    databases = {path: defect for defect in defects if (path := _unreadable(defect))}
    if not missing and not databases:
        return
    try:
        presence = ConfigPresence(survey.inspection.store, survey.inspection.scope.version)
    except UnreadablePath:  # the validation says so
        return
    rewrite = _Rewrite(writer, survey, presence)
    for finding in missing:
        names = ALL if finding.path == CONFIG else MISSING[finding.code]
        if finding.code == CF_GONE and finding.path != CONFIG:
            names = (GROUPS_JSON,)
        if why := rewrite.obstacle(names, obstacle, resets=resets):
            writer.leave(finding.code, finding.path, finding.message, why)
        else:
            rewrite.create(names, finding.code)
    for path, finding in sorted(databases.items()):
        names = managers_in(path)
        if why := rewrite.obstacle(names, obstacle, resets=resets):
            writer.leave(finding.code, finding.path, finding.message, why)
            continue
        place = survey.inspection.child(path)
        writer.remove(
            place.location, finding.code, NEW_DATABASE, lost="rows that the log does not tell"
        )
        rewrite.create([name for name in names if not presence.has_file(name)], finding.code)


class _Rewrite:
    """Writes configuration files, each once.

    Args:
        writer: takes the edits.
        survey: of the store.
        presence: of its configuration.
    """

    def __init__(self, writer: EditWriter, survey: LogSurvey, presence: ConfigPresence) -> None:
        self._writer, self._survey, self._presence = writer, survey, presence
        self._done: set[str] = set()

    def obstacle(self, names: tuple[str, ...], obstacle: str, *, resets: bool) -> str:
        """Say why files are not written, or what helps; empty where they are."""
        if not self._presence.sources.has_json and not MANAGERS.keys().isdisjoint(names):
            counts = queue_counts(self._survey).items()
            listed = ", ".join(f"{count} for {topic}" for topic, count in [*counts][:MOST_NAMED])
            return f"{SECOND_VERSION}{listed}{', …' if len(counts) > MOST_NAMED else ''}"
        if resets and TIMER_CHECK in names and names != ALL and timer_check(self._survey) is None:
            return NO_TIMER_LOG
        return obstacle if resets and obstacle else "" if resets else RESET

    def create(self, names: Iterable[str], code: Code) -> None:
        """Write files that are not there."""
        for name in names:
            if name in self._done:
                continue
            self._done.add(name)
            written = self._content(name)
            if written is None:
                continue
            raw, lost = written
            place = self._survey.inspection.child(f"{CONFIG}/{self._presence.file_of(name)}")
            self._writer.create(place.location, Content.of(raw), code, NEW_FILE, lost=lost)

    def _content(self, name: str) -> tuple[bytes, str] | None:
        """Give a file, and what is lost of the one that was there; None where it is not needed."""
        if name == TIMER_CHECK:
            is_needed = self._presence.lacks_timer_check
            raw = timer_check(self._survey) if is_needed else None
            return None if raw is None else (raw, TIMERS_LOST)
        written = neutral(self._survey, self._presence.file_of(name))
        if name == TOPICS_JSON:
            written = topics_text(self._survey), TOPICS_LOST
        return written and (written[0].encode("utf-8", "surrogateescape"), written[1])


def _unreadable(finding: Finding) -> str:
    """Give the database of metadata that a finding says no broker reads whole; empty for others."""
    if finding.code not in UNREADABLE or finding.severity is not Severity.DAMAGE:
        return ""
    databases = (path for path in DATABASES if f"{finding.path}/".startswith(f"{path}/"))
    return next(databases, "")
