"""`send`: a file is checked whole, then its messages go to a cluster."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from rmqtool.errors import Trouble, UnreadablePath, UsageError
from rmqtool.sending.access import access_of
from rmqtool.sending.entries import digest_of, entries
from rmqtool.sending.outgoing import BadLine, Outgoing
from rmqtool.sending.pipeline import Pipeline
from rmqtool.sending.producer import Brokers
from rmqtool.sending.report import SendContent, SendResult, Turns
from rmqtool.sending.routes import routes_of
from rmqtool.store.address import place_of
from rmqtool.writing.ledger import SentLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.sending.options import SendOptions
    from rmqtool.sending.routes import Route, TargetQueue
    from rmqtool.store.place import OpenFile

    Advance = Callable[[int], None]

_SEGMENT: Final = re.compile(r"[0-9]{20}")


class SendRun:
    """A sending that was asked for; nothing is sent before it runs.

    Args:
        options: what is wanted.

    Attributes:
        total_bytes: of the file.

    Raises:
        UnreadablePath: it is not there, or cannot be read.
    """

    def __init__(self, options: SendOptions) -> None:
        self.options = options
        self._place = place_of(options.file)
        with self._place.open() as file:
            self.total_bytes = file.size

    def check(self, advance: Advance = lambda _: None) -> SendContent:
        """Read the whole file, and say what it holds.

        Args:
            advance: takes the bytes that were read since it was last called.
        """
        checked = SendContent()
        with self._place.open() as file:
            for entry in entries(file, self.options.destination, advance):
                checked.entries += 1
                if isinstance(entry, BadLine):
                    self._note_bad(entry, checked)
                elif self._is_wanted(entry, checked):
                    checked.messages[entry.topic, entry.queue_id] += 1
                    checked.bytes[entry.topic] += len(entry.body)
                    checked.waiting += entry.wait is not None
            checked.digest = digest_of(file)
        return checked

    def run(self, checked: SendContent, advance: Advance = lambda _: None) -> SendResult:
        """Send what was checked; of a dry run only say where it would go.

        Args:
            checked: what the file holds.
            advance: takes the messages that were passed since it was last called.

        Raises:
            RemotingError: no name server answers.
            UsageError: a topic is not there, or the file is one of a store; nothing was sent.
            RepairError: the ledger cannot be used; nothing was sent.
        """
        options, outcome = self.options, SendResult(checked)
        if not checked.total or (checked.bad_count and not options.skip_bad):
            return outcome
        if not options.name_servers:
            return outcome
        access = access_of(options)
        routes = routes_of(options, access, checked.queues)
        outcome.planned = checked.by_queue(routes)
        if options.dry_run:
            return outcome
        if options.ledger is None and _SEGMENT.fullmatch(self._place.name):
            raise UsageError(
                option="FILE",
                reason=f"{options.file} is a file of a store, where nothing is written",
                step="--ledger FILE: where to keep what was sent",
            )
        facts = {
            "file": options.file,
            "bytes": self.total_bytes,
            "sha256": checked.digest,
            "name_server": options.cluster,
            "to_topic": options.destination.whole,
        }
        began = time.monotonic()
        with (
            self._place.open() as file,
            SentLedger(options.ledger_path, facts, checked.entries) as ledger,
            Brokers(options.timeout, access) as brokers,
        ):
            chosen = self._chosen(file, routes, checked.total)
            Pipeline(options, ledger, brokers, outcome).send(chosen, advance)
        outcome.seconds = time.monotonic() - began
        return outcome

    def _chosen(
        self, file: OpenFile, routes: dict[str, Route], total: int
    ) -> Iterator[tuple[Outgoing, TargetQueue]]:
        """Yield the messages that are to be sent, each with its queue.

        Raises:
            UnreadablePath: they are not those that were checked.
        """
        turns, passed, count = Turns(routes), SendContent(), 0
        for entry in entries(file, self.options.destination):
            if isinstance(entry, Outgoing) and self._is_wanted(entry, passed):
                count += 1
                if entry.topic not in routes:
                    break
                yield entry, turns.queue_of(entry)
        if count != total:
            reason = "was changed while its messages were sent"
            raise UnreadablePath(path=self.options.file, reason=reason, trouble=Trouble.EXPLAINED)

    def _note_bad(self, bad: BadLine, checked: SendContent) -> None:
        """Note what cannot be sent, unless nobody asked for its topic."""
        topics = self.options.topics
        if topics and bad.topic is not None and bad.topic not in topics:
            checked.others += 1
        else:
            checked.add_bad(bad)

    def _is_wanted(self, message: Outgoing, checked: SendContent) -> bool:
        """Say whether a message is to be sent; count it where it is not."""
        options = self.options
        if options.topics and message.own_topic not in options.topics:
            checked.others += 1
        elif message.is_held and not (options.held or (options.pending and message.wait)):
            checked.held += 1
        elif message.is_system and not options.system_topics:
            checked.system += 1
        else:
            return True
        return False
