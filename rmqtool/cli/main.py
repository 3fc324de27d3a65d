"""The entry point. It alone decides the exit code, and no traceback ever reaches a user."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Final

from rmqtool import __version__
from rmqtool.cli.exits import BUG, DONE, IN_PART, INTERRUPTED, NOT_DONE, TERMINATED, say
from rmqtool.cli.signals import Terminated, stoppable
from rmqtool.errors import OutputClosed, RepairError, RmqtoolError, Trouble, UsageError
from rmqtool.plural import counted
from rmqtool.store.anchors import anchored
from rmqtool.store.refused import refused_reads
from rmqtool.store.rocksdb_idle import LACKING, databases_wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer import TyperException

OBJECTS: Final = 100_000  # before they are looked through: imports make many, and all of them stay
QUIET: Final = frozenset({"-q", "--quiet"})
NAMED: Final = 10  # files that cannot be read
ASKED_BY: Final = "_RMQTOOL_COMPLETE"  # a shell: set by the scripts in completion/


class WithoutPandas:
    """Hides pandas, which pyarrow else loads for its first array: half the time of a dump.

    Spark needs it, and takes what `hides_pandas` out of `sys.meta_path` before it starts.
    """

    hides_pandas: Final = True

    def find_spec(self, fullname: str, path: object, target: object = None, /) -> None:  # noqa: ARG002
        """Say that there is no pandas; leave all else to those who know."""
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: without the program's name; None is those of the process.
    """
    # numpy's linear algebra serves nothing here, and its idle threads take turns from ours.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(OBJECTS)
    if arguments is None:
        sys.meta_path.insert(0, WithoutPandas())
    try:
        with stoppable():
            code = _run_and_tell(sys.argv[1:] if arguments is None else arguments)
            _flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Terminated:
        code = TERMINATED
    except OutputClosed as error:
        code = error.exit_code
    except RmqtoolError as error:
        _tell(error, sys.argv[1:] if arguments is None else arguments)
        code = error.exit_code
    except Exception as error:  # noqa: BLE001  (the one place: a bug becomes a sentence)
        _report_bug(error)
        code = BUG
    if code == INTERRUPTED:
        say("interrupted")
    elif code == TERMINATED:
        say("terminated")
    if arguments is None:
        gc.freeze()  # the process ends: nobody needs what a last look through all objects frees
    return code


def _run_and_tell(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; name the files that the disk refused to read."""
    with anchored(), refused_reads() as refused, databases_wait():
        code = _run(arguments)
    if LACKING and not QUIET & {*arguments}:
        ways = ", nor by ".join(sorted(LACKING))
        say(f"this machine cannot confine RocksDB by {ways}; other limits apply")
        LACKING.clear()
    if not refused:
        return code
    files = [*refused.values()]
    for error in files[:NAMED]:
        say(f"could not be read in full: {error}")
    if len(files) > NAMED:
        say(f"and {counted(len(files) - NAMED, 'more file')}")
    return code or IN_PART


def _run(arguments: Sequence[str]) -> int:
    """Read the command line and do what it asks for."""
    if ASKED_BY in os.environ:
        return _complete(arguments)
    if not arguments:
        return _offer()
    if not QUIET & {*arguments}:
        from rmqtool.machine import announce

        announce.listen(say)
    from rmqtool.cli import opening, plain

    command = plain.read(arguments)
    return _typed(arguments) if command is None else opening.run(command)


def _typed(arguments: Sequence[str]) -> int:
    """Let Typer read a line that is not plain."""
    import typer  # in here: when it cannot be imported that is a bug report, no traceback

    from rmqtool.cli import opening
    from rmqtool.cli.typed import read

    try:
        command = read(arguments)
    except typer.Abort:
        return INTERRUPTED
    except typer.TyperException as error:
        _refuse(error)
        return NOT_DONE
    except SystemExit as error:  # Typer's own answer to a closed pipe
        if isinstance(error.__context__, BrokenPipeError):
            raise OutputClosed from error
        return error.code if isinstance(error.code, int) else DONE
    return command if isinstance(command, int) else opening.run(command)


def _offer() -> int:
    """Say what there is to somebody who asked for nothing."""
    from rmqtool.cli.commands import PROGRAM
    from rmqtool.cli.manual.brief import brief

    if sys.stderr is not None:
        sys.stderr.write(brief(PROGRAM))
    return NOT_DONE


def _complete(words: Sequence[str]) -> int:
    """Answer a shell that asks what may come next; a person is typing, so nothing is ever said."""
    try:
        from rmqtool.cli.completion.answer import answer

        return answer(words, os.environ[ASKED_BY])
    except Exception:  # noqa: BLE001  (no report of a bug in the middle of a line)
        return BUG


def _flush() -> None:
    """Write out what Typer printed; what fails here must not fail at exit, after our back."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        from rmqtool.writing.user_files import nowhere

        os.dup2(nowhere(), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise OutputClosed from error
        raise RepairError(
            path="standard output", reason=str(error.strerror), trouble=Trouble.of(error)
        ) from error


def _tell(error: RmqtoolError, arguments: Sequence[str]) -> None:
    """Say what cannot be done, where, and what to try next."""
    words = str(error)
    step = error.next_step
    if isinstance(error, UsageError) and not step:
        from rmqtool.cli.commands import NAMES

        names = [name for name in NAMES if name in arguments[:1]]
        step = " ".join(["rmqtool", *names, "--help"])
    say(f"{words}\ntry: {step}" if step else words)


def _refuse(error: TyperException) -> None:
    """Word a usage error: what, and where the help is."""
    from rmqtool.cli.commands import OTHER_OPTIONS

    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "rmqtool"
    step = f"{where} --help"
    if meant := OTHER_OPTIONS.get(getattr(error, "option_name", "")):
        step = meant
    say(f"{error.format_message()}\ntry: {step}")


def _report_bug(error: Exception) -> None:
    """Say that this is our fault and put the traceback where it can be sent from."""
    import traceback

    from rmqtool.writing.user_files import keep

    text = "".join(traceback.format_exception(error))
    say(f"this is a bug in rmqtool {__version__}: {type(error).__name__}: {error}")
    if os.environ.get("RMQTOOL_DEBUG"):
        say(text)
        return
    try:
        path = keep("bug", f"rmqtool {__version__}, python {sys.version}\n{text}")
        say(f"please report it with the command line and with {path}")
    except OSError:
        say("please report it with the output of RMQTOOL_DEBUG=1")
