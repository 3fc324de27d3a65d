"""Two machine instructions for kernels that write text: copy a stretch of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from rmqtool.machine.pieces import Instruction

if TYPE_CHECKING:
    from collections.abc import Callable

# numba gives a generator its context and the types of the arguments, which say nothing new.
# ruff: noqa: ANN401, ARG001

_MEMCPY: Final = "llvm.memcpy.p0i8.p0i8.i64"


# copy_bytes(out, cursor, text, start, length) copies `length` bytes of `text` from `start` on to
# `out` at `cursor`; no bounds are checked. A loop over bytes takes five times as long, as the
# compiler must suspect an overlap.
copy_bytes: Final = cast(
    "Callable[..., int]", Instruction("rmqtool.tables.copying", "copying_bytes")
)


# copy_memory(out, cursor, address, length) does the same with bytes at an address: those of many
# arrays, which need not be put into one for that. The caller keeps the arrays.
copy_memory: Final = cast(
    "Callable[..., int]", Instruction("rmqtool.tables.copying", "copying_memory")
)


def copying_bytes(context: Any, out: Any, cursor: Any, text: Any, start: Any, length: Any) -> Any:
    """Generate the code of `copy_bytes`; only the compiler calls this, and loads LLVM and numba."""
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source = (
            builder.gep(
                _data(context, builder, signature.args[n], arguments[n]), [arguments[n + 1]]
            )
            for n in (0, 2)
        )
        _call_memcpy(builder, target, source, arguments[4])
        return context.get_dummy_value()

    return types.void(out, types.int64, text, types.int64, types.int64), generate


def copying_memory(context: Any, out: Any, cursor: Any, address: Any, length: Any) -> Any:
    """Generate the code of `copy_memory`; only the compiler calls this."""
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _data(context, builder, signature.args[0], arguments[0])
        source = builder.inttoptr(arguments[2], target.type)
        _call_memcpy(builder, builder.gep(target, [arguments[1]]), source, arguments[3])
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64, types.int64), generate


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Give a pointer to the first byte of an array."""
    from llvmlite import ir

    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(data, ir.IntType(8).as_pointer())


def _call_memcpy(builder: Any, target: Any, source: Any, length: Any) -> None:
    from llvmlite import ir

    bit = ir.IntType(1)
    kind = ir.FunctionType(ir.VoidType(), [target.type, source.type, length.type, bit])
    module = builder.module
    function = module.globals.get(_MEMCPY) or ir.Function(module, kind, _MEMCPY)
    builder.call(function, [target, source, length, ir.Constant(bit, 0)])
