"""`rmqtool help`: a page of the manual, through `man` where there is one."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rmqtool.cli.app import PROGRAM
from rmqtool.cli.exits import DONE

if TYPE_CHECKING:
    from rmqtool.cli.manual_page import Page

PAGE_COLUMNS = 80  # where there is no terminal


def help(  # noqa: A001  (named as the command is)
    topic: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]",
            show_default=False,
            help="A command, 'formats', 'findings', 'spark', or a word: a finding code such as "
            "CL-CRC or CL, a file such as consumequeue, a structure such as index_header, a field "
            "such as sys_flag. Default: rmqtool itself.",
        ),
    ] = None,
) -> int:
    """Show a page of the manual: a command, the formats, a finding.

    On a terminal whole pages are shown by man(1), where there is one; elsewhere, and for a single
    word, the text goes to standard output. Nothing needs to be installed for it.
    """
    from rmqtool.cli.manual import entry, whole_page
    from rmqtool.cli.manual_plain import plain

    asked = " ".join(topic or [PROGRAM])
    page = whole_page(asked)
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    if page is not None and is_terminal and _through_man(page):
        return DONE
    columns = shutil.get_terminal_size((PAGE_COLUMNS, 0)).columns
    typer.echo(plain(page or entry(asked), columns), nl=False)
    return DONE


def _through_man(page: Page) -> bool:
    """Have man show a page; False where there is none, or one that cannot."""
    from rmqtool.cli.manual_roff import roff

    man = shutil.which("man")
    if man is None:
        return False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's, as for man
    try:
        done = subprocess.run(  # noqa: S603  (what `man` on the person's own path is)
            [man, "-l", "-"], input=roff(page).encode(), check=False, stderr=subprocess.DEVNULL
        )
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return done.returncode == 0
