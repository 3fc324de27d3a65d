"""`rmqtool help`: a page of the manual, through `man` where there is one; `--help`, `--version`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from rmqtool.cli.commands import PROGRAM
from rmqtool.cli.completion.values import help_topics
from rmqtool.cli.declaration import Argument, Command
from rmqtool.cli.exits import DONE
from rmqtool.cli.options import Lang
from rmqtool.languages import Language, chosen

if TYPE_CHECKING:
    from rmqtool.cli.manual.blocks import Page

PAGE_COLUMNS: Final = 80  # where there is no terminal


@dataclass(frozen=True)
class Help(Command):
    """On a terminal whole pages are shown by man(1), where there is one; elsewhere, and for a
    single word, the text goes to standard output. Nothing needs to be installed for it.
    """

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            "A command, 'formats', 'tables', 'findings', 'spark', 'decoders', or a word. Words are "
            "finding codes (CL-CRC, CL), files (consumequeue), structures (index_header), fields "
            "(sys_flag), columns (unique_key) and other names of them (msgId). Default: "
            "rmqtool itself.",
            completes=help_topics,
        ),
    ] = ()
    lang: Lang = None

    def run(self) -> int:
        """Show the page."""
        import shutil

        from rmqtool.cli.manual import entry, whole_page
        from rmqtool.cli.manual.plain import plain

        asked = " ".join(self.topic) or PROGRAM
        language = chosen(self.lang)
        if language is not Language.ENGLISH and (page := _translated(asked, language)):
            _show(plain(page, PAGE_COLUMNS))
            return DONE
        page = whole_page(asked)
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        if page is not None and is_terminal and _through_man(page):
            return DONE
        columns = shutil.get_terminal_size((PAGE_COLUMNS, 0)).columns
        _show(plain(page or entry(asked), columns))
        return DONE


def _translated(asked: str, language: Language) -> Page | None:
    from rmqtool.cli.manual.findings import translated_page

    return translated_page(asked if asked.islower() else asked.upper(), language)


@dataclass(frozen=True)
class Brief(Command):
    """What `--help` shows of a command, or of the program."""

    is_declared: ClassVar[bool] = False
    name: str

    def run(self) -> int:
        """Show it."""
        from rmqtool.cli.manual.brief import brief

        _show(brief(self.name))
        return DONE


@dataclass(frozen=True)
class Versions(Command):
    """What `--version` shows."""

    is_declared: ClassVar[bool] = False

    def run(self) -> int:
        """Show it."""
        from rmqtool.cli.versions import versions

        _show("".join(f"{line}\n" for line in versions()))
        return DONE


def _show(text: str) -> None:
    from rmqtool.render.sink import standard_output

    standard_output().write(text.encode())


def _through_man(page: Page) -> bool:
    """Have man show a page; False where there is not one, or one that cannot."""
    import shutil
    import signal
    import subprocess

    from rmqtool.cli.manual.roff import roff

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
