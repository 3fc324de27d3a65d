"""Options as declarations: what the annotation of a field says, and how words become values.

A command is a frozen dataclass. Each field is an argument or an option: its annotation holds an
`Argument` or an `Option`, its type says how the value is read, its default what counts without it.

| type | is |
|---|---|
| `bool` | a flag |
| `str` | a text |
| `int` | a whole number, at least `Option.least` |
| a `StrEnum` | one of its words |
| `tuple[str, ...]` | a text that may be given several times |
| `frozenset[str]` | words, comma separated, that may be given several times |
| a frozen dataclass | options that several commands share; `Only` takes some of them |

What reads a command line (`plain.py`, `typed.py`) and what tells about it (`manual/`,
`completion/`) knows a command by its `parameters` alone.
"""

from __future__ import annotations

import enum
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
)

from rmqtool.errors import UsageError

C = TypeVar("C", bound="Command")
T = TypeVar("T")
Raw: TypeAlias = str | bool | list[str]  # as typed: a text, a flag, texts
Word: TypeAlias = tuple[str, str]  # what may be typed, and what it is
NOT: Final = "/"  # in the name of a flag, before what switches it off


class Command(ABC):
    """What a command line asks for. The docstring is its help, below the summary in `CONTENTS`."""

    is_declared: ClassVar[bool] = True  # its fields are arguments and options

    @abstractmethod
    def run(self) -> int:
        """Do it and give the exit code. Raises RmqtoolError: it cannot be done."""

    def describe(self) -> int:
        """Write what the rows would be, as `--format json-schema` asks; no store is read.

        Raises:
            RmqtoolError: it cannot be done.
        """
        raise UsageError(option="--format", reason="there are no rows to describe")


class Line(NamedTuple):
    """What stands on a command line before the word that is to be completed."""

    arguments: Sequence[str]  # such as stores
    values: Mapping[str, Sequence[str]]  # of options, by the name of the field


Completer: TypeAlias = Callable[[Line], Iterable[Word]]


class Argument(NamedTuple):
    """What is said of a field that is no option."""

    metavar: str  # what stands for it in the help
    help: str  # sentences
    completes: Completer | None = None  # gives what may stand there; None is a file
    opens: bool = False  # it is a store, so it may be an archive, or a directory above a store


class Option(NamedTuple):
    """What is said of a field that is an option."""

    names: str  # as typed, comma separated; `--do/--no-do` is a flag and what switches it off
    help: str  # sentences
    # what stands for its value in the help; without one a choice has its words there
    metavar: str = ""
    least: int | None = None  # the least number
    # gives what may stand there; None is a file, or the words of a choice
    completes: Completer | None = None
    env: str = ""  # the environment variable that counts where the option is not given
    # it is a store that is only read, so it may be an archive, or a directory above one
    opens: bool = False


class Only:
    """Takes some fields of a group: `delivery: Annotated[Delivery, Only("columns", "quiet")]`."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Kind(enum.Enum):
    """How a value is read."""

    FLAG = enum.auto()
    TEXT = enum.auto()
    NUMBER = enum.auto()
    CHOICE = enum.auto()
    TEXTS = enum.auto()
    WORDS = enum.auto()


class Parameter(NamedTuple):
    """One argument or option of a command."""

    name: str  # of the field; no command has it twice
    group: str  # the field of the command that holds the group with this field; empty without one
    declaration: Argument | Option
    kind: Kind  # how its value is read
    type: Any  # of its value, None aside
    default: Any  # None without one, or none is needed
    is_required: bool  # there is no default

    @property
    def is_argument(self) -> bool:
        """Whether it stands without a name."""
        return isinstance(self.declaration, Argument)

    @property
    def is_many(self) -> bool:
        """Whether it may be given several times."""
        return self.kind in {Kind.TEXTS, Kind.WORDS}

    @property
    def spellings(self) -> dict[str, bool]:
        """What is typed for it; False is what switches a flag off."""
        if isinstance(self.declaration, Argument):
            return {}
        return {
            spelt: not number
            for name in self.declaration.names.split(", ")
            for number, spelt in enumerate(name.split(NOT))
        }

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that there are; empty where there are more than a few."""
        return tuple(map(str, self.type)) if self.kind is Kind.CHOICE else ()

    @property
    def term(self) -> str:
        """Name and value, as the help has them."""
        if isinstance(self.declaration, Argument):
            dots = "..." if self.is_many else ""
            name = self.declaration.metavar if self.is_required else f"[{self.declaration.metavar}]"
            return f"{name}{dots}"
        names = self.declaration.names.replace(NOT, f" {NOT} ")
        return f"{names} {self.declaration.metavar or '|'.join(self.choices)}".rstrip()

    @property
    def text(self) -> str:
        """What the help says about it."""
        least, env = getattr(self.declaration, "least", None), getattr(self.declaration, "env", "")
        marks = [
            f"environment: {env}" if env else "",
            f"at least {least}" if least is not None else "",
            f"default: {self.default}" if self.default and self.kind is not Kind.FLAG else "",
            "required" if self.is_required else "",
        ]
        return "  ".join([self.declaration.help, *(f"[{mark}]" for mark in marks if mark)])

    def read(self, raw: Raw) -> object:
        """Give the value of what was typed. Raises UsageError: it is not one."""
        if isinstance(raw, list):
            if self.kind is Kind.TEXTS:
                return tuple(raw)
            return frozenset(word for text in raw for word in text.split(",") if word)
        if self.kind is Kind.NUMBER:
            return self._number(str(raw))
        if self.kind is Kind.CHOICE:
            if raw not in self.choices:
                reason = f"{raw!r} is not one of: {' '.join(self.choices)}"
                raise self._refusal(reason)
            return self.type(raw)
        return raw

    def _number(self, raw: str) -> int:
        least = getattr(self.declaration, "least", None)
        try:
            number = int(raw)
        except ValueError as error:
            reason = f"{raw!r} is not a whole number"
            raise self._refusal(reason) from error
        if least is not None and number < least:
            reason = f"{number} is too small: at least {least}"
            raise self._refusal(reason)
        return number

    def _refusal(self, reason: str) -> UsageError:
        longest = max(self.spellings, key=len, default=self.term)
        return UsageError(option=longest, reason=reason)


def flag(name: str, declaration: Option) -> Parameter:
    """Give a flag that is no field of a command, such as --help."""
    return Parameter(name, "", declaration, Kind.FLAG, bool, False, is_required=False)


@cache
def parameters(command: type[Command]) -> tuple[Parameter, ...]:
    """Give the arguments and options of a command, in the order of its fields."""
    return tuple(_parameters(command))


def _parameters(
    owner: type[Any], group: str = "", only: Sequence[str] | None = None
) -> Iterator[Parameter]:
    hints = get_type_hints(owner, include_extras=True)
    for field in fields(owner):
        if only is not None and field.name not in only:
            continue
        hint = hints[field.name]
        base, marks = getattr(hint, "__origin__", hint), getattr(hint, "__metadata__", ())
        if is_dataclass(base) and isinstance(base, type):
            some = next((mark.names for mark in marks if isinstance(mark, Only)), None)
            yield from _parameters(base, field.name, some)
            continue
        declaration = next(mark for mark in marks if isinstance(mark, Argument | Option))
        type_ = _without_none(base)
        default = None if field.default is MISSING else field.default
        is_required = field.default is MISSING
        yield Parameter(field.name, group, declaration, _kind(type_), type_, default, is_required)


def _without_none(type_: Any) -> Any:  # noqa: ANN401 - annotations are of many types
    if not isinstance(type_, UnionType):
        return type_
    return next(kind for kind in get_args(type_) if kind is not type(None))


def _kind(type_: Any) -> Kind:  # noqa: ANN401 - likewise
    kinds = {bool: Kind.FLAG, str: Kind.TEXT, int: Kind.NUMBER}
    if type_ in kinds:
        return kinds[type_]
    if isinstance(type_, type) and issubclass(type_, enum.StrEnum):
        return Kind.CHOICE
    return {tuple: Kind.TEXTS, frozenset: Kind.WORDS}[type_.__origin__]


def build(command: type[C], given: Mapping[str, Raw]) -> C:
    """Make a command of what was typed, by the names of its parameters, and of the environment.

    Raises:
        UsageError: a value is not one, or contradicts another.
    """
    values: dict[str, dict[str, object]] = {"": {}}
    for parameter in parameters(command):
        if parameter.name in given:
            values.setdefault(parameter.group, {})[parameter.name] = parameter.read(
                given[parameter.name]
            )
        elif isinstance(parameter.declaration, Option) and (
            raw := os.environ.get(parameter.declaration.env)
        ):
            from_there = parameter._replace(
                declaration=parameter.declaration._replace(names=parameter.declaration.env)
            )
            values.setdefault(parameter.group, {})[parameter.name] = from_there.read(raw)
    own = values.pop("")
    for group, some in values.items():
        own[group] = replace(getattr(command, group), **some)  # its default is the class's own
    return command(**own)


def options_of(kind: type[T], *holders: object, **given: object) -> T:
    """Make the options of a library call: what is given, else the fields of a command by name.

    Args:
        kind: of the options.
        holders: the command, or groups of its options.
        given: what has another name or another type in the command, or is not in it.
    """
    names = [field.name for field in fields(cast("Any", kind))]
    own = {
        name: getattr(holder, name) for holder in holders for name in names if hasattr(holder, name)
    }
    return kind(**own | given)
