"""What `rmqtool-formats(5)` says around its byte tables: which file holds them, and how.

`texts/formats.txt` has a part for each kind of file. A line that begins with `= ` gives the names
of files and directories as people see them, with `@ ` the structures in the order of the file.
Source: the classes that the modules of `formats/` name, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

FILE_NAMES: Final = "= "
STRUCTURES: Final = "@ "


@dataclass(frozen=True, slots=True)
class FileKind:
    """One kind of file."""

    title: str  # its heading
    before: str  # paragraphs before the byte tables
    layouts: tuple[str, ...]  # names of its structures, in the order of the file
    after: str  # paragraphs after them
    names: tuple[str, ...]  # of files and directories, as people see them


def _artefact(written: str) -> FileKind:
    title, *parts = written.strip().split("\n\n")
    names = [part for part in parts if part.startswith(FILE_NAMES)]
    (layouts,) = (number for number, part in enumerate(parts) if part.startswith(STRUCTURES))
    return FileKind(
        title,
        "\n\n".join(parts[len(names) : layouts]),
        tuple(parts[layouts].replace(STRUCTURES, " ").split()),
        "\n\n".join(parts[layouts + 1 :]),
        tuple(name for line in names for name in line.removeprefix(FILE_NAMES).split(", ")),
    )


def _terms(written: str) -> dict[str, str]:
    terms = (part.split("\n: ", 1) for part in written.strip().split("\n\n")[1:])
    return {term: " ".join(text.split()) for term, text in terms}


_PARTS: Final = (
    files("rmqtool.cli.manual")
    .joinpath("texts", "formats.txt")
    .read_text(encoding="utf-8")
    .removeprefix("# ")
    .split("\n# ")
)
CONVENTIONS: Final = _PARTS[0].partition("\n")[2]
ARTEFACTS: Final = tuple(map(_artefact, _PARTS[1:-1]))
TEXT_FILES: Final = _terms(_PARTS[-1])
