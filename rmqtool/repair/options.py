"""What a repair is asked."""

from __future__ import annotations

from dataclasses import dataclass

from rmqtool.broker.release import Version


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What was asked."""

    store: str  # the store root
    broker_version: str | None = None  # release that is to run on it; None is whoever wrote it
    broker_conf: str | None = None  # its configuration file
    bridge_missing: bool = False  # write files of bridges where segments are missing
    clamp_offsets: bool = False  # move committed offsets that lie outside of their queue to its end
    set_offset: tuple[str, ...] = ()  # committed offsets to set, clone or remove
    # write configuration files anew of which no copy is sound; put topics back
    reset_config: bool = False
    fast_start: bool = False  # of a crashed store that is sound: spare the broker its recovery
    # root of another store with the same log, which lends what is damaged here
    replica: str | None = None
    jobs: int | None = None  # threads; None is one for each processor

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        if self.broker_version is not None:
            Version.parse(self.broker_version)
        if self.set_offset:
            from rmqtool.repair.state.set_offsets import OffsetChange  # few ask for it

            for text in self.set_offset:
                OffsetChange.parse(text)

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
        words += [word for offset in self.set_offset for word in ("--set-offset", offset)]
        words += ["--reset-config"] if self.reset_config else []
        words += ["--fast-start"] if self.fast_start else []
        return words
