"""What a repair is asked."""

from __future__ import annotations

from dataclasses import dataclass

from rmqtool.broker.release import Version


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What was asked.

    Attributes:
        store: the store root.
        broker_version: release that is to run on it; None is whoever wrote it.
        broker_conf: its configuration file.
        bridge_missing: write files of bridges where segments are missing.
        clamp_offsets: move committed offsets that lie outside of their queue to its end.
        reset_config: write configuration files anew of which no copy is sound; put topics back.
        fast_start: of a crashed store that is sound: spare the broker its recovery.
        replica: root of another store with the same log, which lends what is damaged here.
        jobs: threads; None is one for each processor.
    """

    store: str
    broker_version: str | None = None
    broker_conf: str | None = None
    bridge_missing: bool = False
    clamp_offsets: bool = False
    reset_config: bool = False
    fast_start: bool = False
    replica: str | None = None
    jobs: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        if self.broker_version is not None:
            Version.parse(self.broker_version)

    @property
    def words(self) -> list[str]:
        """What was asked, as it is said on the command line."""
        words: list[str] = []
        for name, value in (
            ("--broker-version", self.broker_version),
            ("--broker-conf", self.broker_conf),
            ("--from", self.replica),
        ):
            words += [name, value] if value is not None else []
        words += ["--bridge-missing"] if self.bridge_missing else []
        words += ["--clamp-offsets"] if self.clamp_offsets else []
        words += ["--reset-config"] if self.reset_config else []
        words += ["--fast-start"] if self.fast_start else []
        return words
