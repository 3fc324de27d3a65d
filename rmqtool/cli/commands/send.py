"""`rmqtool send`: messages of a file into a running cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rmqtool.cli.declaration import Argument, Command, Only, Option, options_of
from rmqtool.cli.delivery import Delivery
from rmqtool.cli.exits import DONE, IN_PART, NO, NOT_DONE, say
from rmqtool.cli.options import Held
from rmqtool.sending.options import WINDOW, Delays, SendOptions, addresses

if TYPE_CHECKING:
    from rmqtool.sending.report import SendResult


@dataclass(frozen=True)
class Send(Command):
    """FILE has JSON lines or records, as 'extract' writes them. It is checked whole first: if one
    message cannot be sent, its line is named, and nothing is sent. A topic that the cluster lacks
    is an error, too, before anything is sent.

    Each message goes to the topic that it was first sent to. Its body, tags, keys, unique key, flag
    and born time go along, and the properties of its sender. Retried and dead messages go to their
    real topic. Transaction state and broker-set properties are not sent, and delays as --delays
    says. The property RMQTOOL_OLD_ID is the offsetMsgId that the message had. Messages of one queue
    go to one queue, in their order: to the queue of the same number if the topic has it.

    Several messages are on their way at once, one for each queue: so the order of a queue stays.

    FILE.sent, the ledger, keeps what was sent. After a stop the same command goes on. Only messages
    that were on their way may be sent twice: the process was killed, or the connection broke. There
    are at most --window of them, and they are named. After a power failure it may be the last 1000.

    The exit code is 0 when all was sent. It is 1 when something was refused, or there is nothing to
    send. It is 2 when nothing was sent, and 3 when something stopped it after the first message.
    """

    file: Annotated[str, Argument("FILE", "JSON lines or records, as 'extract' writes them.")]
    name_server: Annotated[
        str | None,
        Option(
            "-n, --name-server",
            "Name servers of the cluster: 10.0.0.1:9876;10.0.0.2:9876. A dry run may do without.",
            "ADDRESS",
            env="NAMESRV_ADDR",
        ),
    ] = None
    topics: Annotated[
        tuple[str, ...],
        Option("--topic", "Only messages that were sent to this topic; may be repeated.", "TOPIC"),
    ] = ()
    to_topic: Annotated[
        str | None,
        Option("--to-topic", "Send all of them to this topic instead of their own.", "TOPIC"),
    ] = None
    to_group: Annotated[
        str | None,
        Option(
            "--to-group",
            "Send them to this consumer group alone, through its retry topic: its listener sees "
            "the topic that each was sent to. 5.3 and later put them among the dead letters while "
            "the group consumes in order.",
            "GROUP",
        ),
    ] = None
    credentials: Annotated[
        str | None,
        Option(
            "--credentials",
            "File with the lines accessKey=NAME and secretKey=SECRET, as conf/tools.yml. Without "
            "it: RMQTOOL_ACCESS_KEY, RMQTOOL_SECRET_KEY and RMQTOOL_SECURITY_TOKEN.",
            "FILE",
        ),
    ] = None
    tls: Annotated[
        bool,
        Option(
            "--tls",
            "Encrypt connections, and verify certificates. Names in them are not compared, as "
            "RocketMQ's clients do not.",
        ),
    ] = False
    tls_ca: Annotated[
        str | None,
        Option("--tls-ca", "Trust these certificates (PEM) instead of the system's.", "FILE"),
    ] = None
    tls_cert: Annotated[
        str | None,
        Option("--tls-cert", "Show this certificate (PEM) to servers that ask for one.", "FILE"),
    ] = None
    tls_key: Annotated[
        str | None,
        Option("--tls-key", "Key of --tls-cert (PEM, no password), if in another file.", "FILE"),
    ] = None
    dry_run: Annotated[
        bool, Option("--dry-run", "Count what would go to each queue; send nothing.")
    ] = False
    pending: Annotated[
        bool,
        Option(
            "--pending",
            "Waiting timers of a file of 'extract --pending', too. What is left of all delays is "
            "kept, unless --delays says otherwise. Half messages are left out.",
        ),
    ] = False
    delays: Annotated[
        Delays | None,
        Option(
            "--delays",
            "The delay of messages that wait: 'drop' it (default), or 'keep' the rest of it. "
            "Brokers with timers (5.x) deliver them on time; others by the next longer delay "
            "level.",
        ),
    ] = None
    skip_bad: Annotated[
        bool, Option("--skip-bad", "Send the others if some messages cannot be sent.")
    ] = False
    held: Held = False
    system_topics: Annotated[
        bool,
        Option("--system-topics", "Messages of topics that brokers make for themselves, too."),
    ] = False
    rate: Annotated[
        int | None, Option("--rate", "Messages a second, at most.", "NUMBER", least=1)
    ] = None
    window: Annotated[
        int,
        Option(
            "--window",
            "Messages on their way at once, at most; one for each queue.",
            "NUMBER",
            least=1,
        ),
    ] = WINDOW
    ledger: Annotated[
        str | None, Option("--ledger", "Keep what was sent here instead of FILE.sent.", "FILE")
    ] = None
    timeout: Annotated[
        int,
        Option("--timeout", "Seconds to wait for a connection or an answer.", "NUMBER", least=1),
    ] = 10
    delivery: Annotated[Delivery, Only("format", "output", "color", "quiet")] = Delivery()

    def describe(self) -> int:
        """Write what the rows are."""
        from rmqtool.sending.report import NOT_SENT, SENDING

        return self.delivery.describe([SENDING, NOT_SENT])

    def run(self) -> int:
        """Send; 1 when something was refused."""
        from rmqtool.render.progress import progress
        from rmqtool.sending.report import kinds, sentences
        from rmqtool.sending.sending import SendRun

        self.delivery.keep_out_of()
        options = self._options()
        work = SendRun(options)
        quiet = self.delivery.quiet
        with progress("check", work.total_bytes or None, quiet=quiet) as advance:
            checked = work.check(advance)
        with progress("send", None, quiet=quiet) as advance:
            outcome = work.run(checked, advance)
        self.delivery.emit_all(kinds(outcome))
        for sentence in sentences(options, outcome):
            self.delivery.note(sentence)
        return self._end(outcome)

    def _options(self) -> SendOptions:
        return options_of(
            SendOptions,
            self,
            name_servers=() if self.name_server is None else addresses(self.name_server),
            timeout=float(self.timeout),
        )

    def _end(self, outcome: SendResult) -> int:
        """Say why it stopped, and give the exit code."""
        if outcome.stopped is not None:
            say(str(outcome.stopped))
            if step := outcome.stopped.next_step:
                say(f"try: {step}")
            some = outcome.sent.total() + outcome.sent_before.total()
            return IN_PART if some else NOT_DONE
        checked = outcome.checked
        if checked.bad_count and not self.skip_bad:
            return NO if self.dry_run else NOT_DONE
        is_whole = checked.total and not checked.bad_count and not outcome.refused
        return DONE if is_whole else NO
