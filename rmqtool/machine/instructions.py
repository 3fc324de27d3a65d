"""What the instructions of `intrinsics` are made of: generators of LLVM code for the compiler.

Loaded when a kernel has to be compiled, as numba is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import types

from rmqtool.machine.intrinsics import MASK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

# numba gives a generator its context and the types of the arguments, which say nothing new.
# ruff: noqa: ANN401, ARG001

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_I8, MASK_BYTES)


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Give the address of `array[position]`; array and position are the first two arguments."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    start = builder.bitcast(array.data, _I8.as_pointer())
    return builder.gep(start, [arguments[1]])


def _load(bits: int) -> Callable[..., Any]:
    """Make the generator of an unaligned load, widened to int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.IntType(bits)
        place = builder.bitcast(_address(context, builder, signature, arguments), kind.as_pointer())
        value = builder.load(place, align=1)
        if kind != _I8:
            value = builder.bswap(value)
        return value if bits == _I64.width else builder.sext(value, _I64)

    return generate


def load_u1(context: Any, array: Any, position: Any) -> Any:
    """Read a byte, 0 to 255."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(_address(context, builder, signature, arguments)), _I64)

    return types.int64(array, types.int64), generate


def load_i1(context: Any, array: Any, position: Any) -> Any:
    """Read a signed byte."""
    return types.int64(array, types.int64), _load(8)


def load_i2(context: Any, array: Any, position: Any) -> Any:
    """Read a signed big-endian integer of 2 bytes."""
    return types.int64(array, types.int64), _load(16)


def load_i4(context: Any, array: Any, position: Any) -> Any:
    """Read a signed big-endian integer of 4 bytes."""
    return types.int64(array, types.int64), _load(32)


def load_i8(context: Any, array: Any, position: Any) -> Any:
    """Read a signed big-endian integer of 8 bytes."""
    return types.int64(array, types.int64), _load(64)


def _store(bits: int) -> Callable[..., Any]:
    """Make the generator of an unaligned big-endian store of the lowest bits of an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.IntType(bits)
        place = builder.bitcast(_address(context, builder, signature, arguments), kind.as_pointer())
        value = arguments[2] if bits == _I64.width else builder.trunc(arguments[2], kind)
        builder.store(builder.bswap(value), place, align=1)
        return context.get_dummy_value()

    return generate


def store_i4(context: Any, array: Any, position: Any, value: Any) -> Any:
    """Write the low 4 bytes of an integer, big-endian."""
    return types.void(array, types.int64, types.int64), _store(32)


def store_i8(context: Any, array: Any, position: Any, value: Any) -> Any:
    """Write an integer of 8 bytes, big-endian."""
    return types.void(array, types.int64, types.int64), _store(64)


def _load_vector(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Load MASK_BYTES bytes of an array from a position on."""
    place = builder.bitcast(_address(context, builder, signature, arguments), _VECTOR.as_pointer())
    return builder.load(place, align=1)


def _bits(builder: Any, lanes: Any) -> Any:
    """Give a truth a byte as an integer of one bit a byte."""
    return builder.zext(builder.bitcast(lanes, ir.IntType(MASK_BYTES)), _I64)


def mask_of(context: Any, array: Any, position: Any, byte: Any) -> Any:
    """Tell which of 32 bytes equal `byte`: bit n of the result stands for byte n."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load_vector(context, builder, signature, arguments)
        wanted = builder.trunc(arguments[2], _I8)
        splat = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(MASK_BYTES):
            splat = builder.insert_element(splat, wanted, ir.Constant(_I32, lane))
        return _bits(builder, builder.icmp_unsigned("==", loaded, splat))

    return types.int64(array, types.int64, types.int64), generate


def differences(context: Any, array: Any, position: Any, other: Any) -> Any:
    """Tell which of 32 bytes differ from the 32 at another position: bit n for byte n."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, position, other = arguments
        left = _load_vector(context, builder, signature, (array, position))
        two = _load_vector(context, builder, signature, (array, other))
        return _bits(builder, builder.icmp_unsigned("!=", left, two))

    return types.int64(array, types.int64, types.int64), generate


def trailing_zeros(context: Any, number: Any) -> Any:
    """Count the zero bits below the lowest one; 64 for zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


def call_crc32(context: Any, array: Any, position: Any, length: Any, address: Any) -> Any:
    """Call `uint32_t crc32_gzip_refl(uint32_t, unsigned char *, uint64_t)` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = _address(context, builder, signature, arguments)
        kind = ir.FunctionType(_I32, [_I32, _I8.as_pointer(), _I64])
        function = builder.inttoptr(arguments[3], kind.as_pointer())
        result = builder.call(function, [ir.Constant(_I32, 0), start, arguments[2]])
        return builder.zext(result, _I64)

    return types.int64(array, types.int64, types.int64, types.int64), generate


def address_of(context: Any, array: Any, position: Any) -> Any:
    """Give the address of an item of an array of bytes, as a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(_address(context, builder, signature, arguments), _I64)

    return types.int64(array, types.int64), generate


def call_c(context: Any, address: Any, numbers: Any) -> Any:
    """Call a function of C at an address with some integers and addresses; it gives one, too.

    A function that takes fewer finds those that it takes: the first are in registers. One that
    gives an `int` gives the low half. As of a variable number of arguments, so that `openat` may
    be one: for others that is the same on every system that has these functions.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        count = len(signature.args[1])
        given = [builder.extract_value(arguments[1], number) for number in range(count)]
        kind = ir.FunctionType(_I64, [_I64] * count, var_arg=True)
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(function, given)

    return types.int64(types.int64, numbers), generate


def number_at(context: Any, address: Any) -> Any:
    """Read a native `int` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _I32.as_pointer())
        return builder.sext(builder.load(place), _I64)

    return types.int64(types.int64), generate
