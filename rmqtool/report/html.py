"""Templates of pages, and how values stand in them.

Whatever a store holds is escaped twice: what does not print, as on a terminal, and then what HTML
would read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from rmqtool.render.values import escape
from rmqtool.times import iso_time

_DURATIONS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


def rendered(template: str, **values: object) -> str:
    """Fill a template of this package.

    Args:
        template: its file name.
        **values: what it names.
    """
    here = Path(__file__)
    environment = Environment(
        loader=FileSystemLoader(here.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": shown, "time": _time, "bytes": _bytes, "number": _number}
    environment.filters["duration"] = _duration
    style = Markup(here.with_name("page.css").read_text(encoding="utf-8"))  # noqa: S704 - ours
    return environment.get_template(template).render(style=style, **values)


def shown(text: object) -> str:
    """Give a text whose characters all print."""
    return escape(str(text))


def _time(ms: int | None) -> str:
    return "" if ms is None else iso_time(ms)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _duration(ms: int) -> str:
    size, unit = next(duration for duration in _DURATIONS if ms % duration[0] == 0)
    return f"{ms // size} {unit}"


def _bytes(value: int) -> str:
    """Give a size for people; the exact one stands where it matters."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value} B"
