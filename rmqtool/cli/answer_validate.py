"""`rmqtool validate` without its options' declarations: what it does with their values.

Apart from `cmd_validate`, so that a plain command line needs no Typer: see `direct`.
"""

from __future__ import annotations

import enum
import gc
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rmqtool import memory
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.engines import Choice, working
from rmqtool.cli.signals import Terminated
from rmqtool.errors import UsageError
from rmqtool.findings.catalogue import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.cli.validating import Reports, Validation
    from rmqtool.render.emit import Format

Word = TypeVar("Word", bound=enum.StrEnum)


class Asked(NamedTuple):
    """The values of the command line; names and defaults are those of `cmd_validate.validate`.

    Attributes:
        choice: who does the work.
    """

    paths: Sequence[str]
    only: list[str] | None = None
    level: str = "full"
    topic: str | None = None
    ignore: list[str] | None = None
    fail_on: str = "damage"
    broker_version: str | None = None
    broker_conf: str | None = None
    jobs: int | None = None
    sarif: str | None = None
    junit: str | None = None
    manifest: str | None = None
    since_manifest: str | None = None
    range_checksum: bool = False
    format_: Format | None = None
    output: str | None = None
    columns: str | None = None
    color: str = "auto"
    quiet: bool = False
    choice: Choice = Choice()


def run(asked: Asked) -> int:
    """Validate the stores; give the exit code.

    Raises:
        UsageError: an option has a value that does not exist, or that contradicts another.
        RmqtoolError: a store cannot be opened at all, or an output not be written.
    """
    memory.give_back_arrays()
    gc.disable()  # what is imported stays: looking through it again and again takes 40 of 500 ms
    from rmqtool.check.options import Level, ValidateOptions
    from rmqtool.cli.validating import Reports, Validation

    delivery = Delivery(asked.format_, asked.output, asked.columns, asked.color, asked.quiet)
    reports = Reports(asked.sarif, asked.junit, asked.manifest, asked.since_manifest)
    reports.refuse(asked.paths, asked.output)
    validation = Validation(
        [
            ValidateOptions(
                store=path,
                only=_words(asked.only),
                level=_one_of(Level, "--level", asked.level),
                topic=asked.topic,
                ignore=_words(asked.ignore),
                fail_on=_one_of(Severity, "--fail-on", asked.fail_on),
                broker_version=asked.broker_version,
                broker_conf=asked.broker_conf,
                jobs=asked.jobs,
                since=asked.since_manifest,
                keeps_book=asked.manifest is not None,
                range_checksums=asked.range_checksum,
            )
            for path in asked.paths
        ]
    )
    gc.enable()
    if asked.topic is not None:
        from rmqtool.cli.hints import topic_hints

        for sentence in topic_hints(asked.paths, asked.broker_conf, [asked.topic]):
            delivery.note(sentence)
    with working(asked.choice, asked.paths, delivery):
        return _deliver(validation, delivery, reports)


def _deliver(validation: Validation, delivery: Delivery, reports: Reports) -> int:
    """Show what is found, sum it up, write the reports."""
    try:
        validation.show(delivery)
    except (KeyboardInterrupt, Terminated):
        # Inside of this block no further signal is raised: what was found gets out.
        validation.show_rest(delivery)
        validation.say(delivery)
        validation.write_reports(reports)
        raise
    validation.say(delivery)
    validation.write_reports(reports)
    return validation.exit_code


def _words(given: list[str] | None) -> frozenset[str]:
    return frozenset(word for text in given or () for word in text.split(",") if word)


def _one_of(kind: type[Word], option: str, word: str) -> Word:
    """Read one of a few words.

    Raises:
        UsageError: it is none of them.
    """
    try:
        return kind(word)
    except ValueError as error:
        reason = f"{word!r} is none of: {' '.join(kind)}"
        raise UsageError(option=option, reason=reason) from error
