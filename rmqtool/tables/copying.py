"""One machine instruction for kernels that write text: copy a stretch of bytes."""

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


def copying_bytes(context: Any, out: Any, cursor: Any, text: Any, start: Any, length: Any) -> Any:
    """Generate the code of `copy_bytes`; only the compiler calls this, and loads LLVM and numba."""
    from llvmlite import ir
    from numba.core import types

    bit, byte, word = ir.IntType(1), ir.IntType(8), ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source = (
            builder.gep(
                builder.bitcast(
                    context.make_array(signature.args[n])(context, builder, arguments[n]).data,
                    byte.as_pointer(),
                ),
                [arguments[n + 1]],
            )
            for n in (0, 2)
        )
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), byte.as_pointer(), word, bit])
        module = builder.module
        function = module.globals.get(_MEMCPY) or ir.Function(module, kind, _MEMCPY)
        builder.call(function, [target, source, arguments[4], ir.Constant(bit, 0)])
        return context.get_dummy_value()

    return types.void(out, types.int64, text, types.int64, types.int64), generate
