"""One machine instruction for kernels that write text: copy a stretch of bytes."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.core import types

from rmqtool.scan.intrinsics import instruction

# numba gives a generator its context and the types of the arguments, which say nothing new.
# ruff: noqa: ANN401, ARG001

_I1, _I8, _I64 = ir.IntType(1), ir.IntType(8), ir.IntType(64)
_MEMCPY: Final = "llvm.memcpy.p0i8.p0i8.i64"


@instruction
def copy_bytes(context: Any, out: Any, cursor: Any, text: Any, start: Any, length: Any) -> Any:
    """Copy `length` bytes of `text` from `start` on to `out` at `cursor`; no bounds are checked.

    A loop over bytes takes five times as long, as the compiler must suspect an overlap.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source = (
            builder.gep(
                builder.bitcast(
                    context.make_array(signature.args[n])(context, builder, arguments[n]).data,
                    _I8.as_pointer(),
                ),
                [arguments[n + 1]],
            )
            for n in (0, 2)
        )
        kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I8.as_pointer(), _I64, _I1])
        module = builder.module
        function = module.globals.get(_MEMCPY) or ir.Function(module, kind, _MEMCPY)
        builder.call(function, [target, source, arguments[4], ir.Constant(_I1, 0)])
        return context.get_dummy_value()

    return types.void(out, types.int64, text, types.int64, types.int64), generate
