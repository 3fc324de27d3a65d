"""Link the object code of kernels into this process, and call it.

LLVM's linker is what numba uses for the same purpose; without numba it is there in a tenth of the
time. A kernel is a C function: it takes a place for its result, a place for an exception that no
kernel raises, and its arguments, of which arrays and tuples are taken apart.
Source: numba.core.callconv.CPUCallConv, numba.core.datamodel.models.ArrayModel, 0.61 to 0.68.
"""

from __future__ import annotations

import ast
import ctypes
import sys
import weakref
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    Flatten = Callable[[Any], Sequence[int]]

ITEM_BYTES: Final = {"uint8": 1, "int32": 4, "uint32": 4, "int64": 8}
SCALAR: Final = "int64"
_SECOND: Final = frozenset({"cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"})
_THIRD: Final = frozenset({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"})
# By LLVM's names: what a processor needs, the highest level first. Source: the psABI of x86-64.
LEVELS: Final = {
    "x86-64-v3": _SECOND | _THIRD,
    "x86-64-v2": _SECOND,
    "x86-64": frozenset[str](),
    "generic": frozenset[str](),  # of any other kind
}
HOST: Final = ""  # the level of code for the very processor that runs this
OK: Final = frozenset({0, -2})  # -2: it returned nothing
MOST_KNOWN: Final = 256  # arrays whose facts are kept


@cache
def _llvm() -> Any:  # noqa: ANN401 - llvmlite has no types
    """Load LLVM's linker and code generator for this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def target(level: str = HOST) -> tuple[str, ...]:
    """Say for which processor and by which LLVM code is made here.

    Args:
        level: what LLVM calls a kind of processors; HOST is the very one that runs this.
    """
    llvm = _llvm()
    version = ".".join(map(str, llvm.llvm_version_info))
    processor, features = level, ""
    if level == HOST:
        processor, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return version, llvm.get_process_triple(), processor, features


@cache
def levels() -> tuple[str, ...]:
    """Give the levels of processors that the one that runs this has, the highest first.

    Where rmqtool is packed for others, code for levels lies beside the modules
    (`warm_up.for_level`): who has one, and no code for itself, compiles nothing at the first run.
    """
    is_intel = target()[1].startswith("x86_64")
    return tuple(
        name
        for name, needs in LEVELS.items()
        if name.startswith("x86") == is_intel and has_instructions(needs)
    )


def has_instructions(names: Collection[str]) -> bool:
    """Say whether the processor that runs this has the instructions that LLVM calls so."""
    if not names:
        return True
    known = _llvm().get_host_cpu_features()
    return all(known.get(name, False) for name in names)


def _target_machine(level: str = HOST) -> Any:  # noqa: ANN401 - llvmlite has no types
    _, triple, processor, features = target(level)
    is_intel = triple.startswith(("x86", "i686", "amd64"))
    return (
        _llvm()
        .Target.from_triple(triple)
        .create_target_machine(
            cpu=processor,
            features=features,
            opt=3,
            reloc="static" if is_intel else "default",  # as numba does
            codemodel="jitdefault",
            jit=True,
        )
    )


@cache
def _engine() -> Any:  # noqa: ANN401 - llvmlite has no types
    """Give the linker; it holds all code until the process ends."""
    llvm = _llvm()
    nothing = llvm.parse_assembly(f'target triple = "{target()[1]}"\n')
    return llvm.create_mcjit_compiler(nothing, _target_machine())


def emit(assembly: str, level: str) -> bytes:
    """Give the object code, for a level, of LLVM assembly that is optimised already."""
    code: bytes = _target_machine(level).emit_object(_llvm().parse_assembly(assembly))
    return code


def _link(name: str, code: bytes) -> int:
    """Bring object code into this process; give the address of a symbol."""
    engine = _engine()
    engine.add_object_file(_llvm().object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address: int = engine.get_function_address(name)
    return address


class Routine:
    """Machine code that can be called.

    Args:
        signature: numba's notation: `int64`, arrays of one or two dimensions, tuples of them.
        name: its symbol.
        code: object code.
    """

    def __init__(self, signature: str, name: str, code: bytes) -> None:
        tree = ast.parse(signature, mode="eval").body
        assert isinstance(tree, ast.Call)  # noqa: S101 - a signature is written as a call
        self._flatten = [_flattener(argument) for argument in tree.args]
        count = sum(_width(argument) for argument in tree.args)
        self._results, self._is_tuple = _results(tree.func)
        prototype = ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * count
        )
        self._function = prototype(_link(name, code))
        self._result_type = ctypes.c_int64 * max(self._results, 1)

    def __call__(self, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as the signature says
        """Call it, without the interpreter lock.

        Raises:
            TypeError: an argument is not what the signature says.
        """
        flat = _all_flat(self._flatten, arguments)
        result = self._result_type()
        failure = ctypes.c_void_p()
        status = self._function(ctypes.addressof(result), ctypes.addressof(failure), *flat)
        if status not in OK:
            message = f"a kernel failed with {status}"
            raise RuntimeError(message)
        if self._is_tuple:
            return tuple(result)
        return result[0] if self._results else None


def _results(node: ast.expr) -> tuple[int, bool]:
    """Give how many integers a kernel returns, and whether they are a tuple."""
    if isinstance(node, ast.Call):  # UniTuple(int64, 3)
        return _width(node), True
    return (0, False) if _name(node) == "void" else (_width(node), False)


def _name(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        message = f"{ast.unparse(node)} is not a type of a kernel's argument"
        raise TypeError(message)
    return node.id


def _items(node: ast.Call) -> list[ast.expr]:
    """Give the types in a tuple: `UniTuple(int64, 3)` or `Tuple((uint8[::1], int64))`."""
    if _name(node.func) == "UniTuple":
        item, count = node.args
        return [item] * int(ast.literal_eval(count))
    (inner,) = node.args
    assert isinstance(inner, ast.Tuple)  # noqa: S101 - so are tuples written
    return inner.elts


def _dimensions(node: ast.Subscript) -> int:
    return len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1


def _width(node: ast.expr) -> int:
    """Give how many integers an argument of a type is handed over as."""
    if isinstance(node, ast.Call):
        return sum(map(_width, _items(node)))
    if isinstance(node, ast.Subscript):
        return 5 + 2 * _dimensions(node)
    if _name(node) != SCALAR:
        message = f"{_name(node)} is not a type of a kernel's argument"
        raise TypeError(message)
    return 1


def _flattener(node: ast.expr) -> Flatten:
    """Give the function that takes an argument of a type apart."""
    if isinstance(node, ast.Call):
        return _of_tuple(_items(node))
    if isinstance(node, ast.Subscript):
        return _ArrayFacts(_name(node.value), _dimensions(node))
    return lambda number: (number,)


def _of_tuple(types: list[ast.expr]) -> Flatten:
    count = len(types)
    if all(isinstance(kind, ast.Name) for kind in types):

        def numbers(values: tuple[int, ...]) -> tuple[int, ...]:
            if len(values) != count:
                message = f"wanted are {count:,}, not {len(values):,}"
                raise TypeError(message)
            return values

        return numbers
    flatteners = [_flattener(kind) for kind in types]

    def flat(values: tuple[Any, ...]) -> list[int]:
        return _all_flat(flatteners, values)

    return flat


def _all_flat(flatteners: list[Flatten], values: tuple[Any, ...]) -> list[int]:
    flat: list[int] = []
    for flatten, value in zip(flatteners, values, strict=True):
        flat += flatten(value)
    return flat


class _ArrayFacts:
    """Takes arrays of one type apart; remembers those that come again and again.

    Owner, parent, items, bytes an item, address, shape, strides: a kernel must not own what it is
    lent, so the first two are null.
    """

    def __init__(self, item: str, dimensions: int) -> None:
        self._item, self._dimensions = item, dimensions
        self._item_bytes = ITEM_BYTES[item]
        order = "|" if self._item_bytes == 1 else "<" if sys.byteorder == "little" else ">"
        self._type_string = f"{order}{item[0]}{self._item_bytes}"
        self._known: dict[int, tuple[weakref.ref[Any], tuple[int, ...]]] = {}

    def __call__(self, array: Any) -> tuple[int, ...]:  # noqa: ANN401 - numpy is not loaded here
        known = self._known.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        facts = self._facts(array)
        if len(self._known) >= MOST_KNOWN:
            self._known = {}
        self._known[id(array)] = (weakref.ref(array), facts)
        return facts

    def _facts(self, array: Any) -> tuple[int, ...]:  # noqa: ANN401 - numpy is not loaded here
        # One question answers all: `dtype.name` alone takes longer than many a kernel runs.
        interface = array.__array_interface__
        shape: tuple[int, ...] = interface["shape"]
        address, is_read_only = interface["data"]
        is_right = (
            interface["typestr"] == self._type_string
            and len(shape) == self._dimensions
            and interface["strides"] is None  # items stand in C order
            and not is_read_only
        )
        if not is_right:
            message = (
                f"a {self._dimensions}-dimensional array of {self._item} wanted, got {array!r}"
            )
            raise TypeError(message)
        if len(shape) == 1:
            return (0, 0, shape[0], self._item_bytes, address, shape[0], self._item_bytes)
        row = shape[1] * self._item_bytes
        strides = (row, self._item_bytes)
        return (0, 0, shape[0] * shape[1], self._item_bytes, address, *shape, *strides)
