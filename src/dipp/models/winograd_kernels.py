"""The kernels of `winograd`, which transform tiles of pictures, multiply them and transform them back.

Pixels hold their channels side by side, so every vector holds channels. Tiles are computed in groups that a
second-level cache holds together with their products. The activation or sum after a convolution is computed while its
output is still in registers.

The intrinsics are written in LLVM's instructions, and `b` is the builder of a function. They are needed because the
sums of a product of matrices must stay in registers, and compiled loops do not keep them there. numba caches compiled
functions by the file that defines them, so everything that they depend on is in this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dipp.compiling import compiled, features, prefer_wide_vectors

Floats = NDArray[np.float32]
Matrix = NDArray[np.float64]

OUT, IN = 4, 6
"""Side of a tile of outputs, and of the square of inputs that it depends on, in pixels."""
PRODUCTS = IN * IN
"""Number of products for each tile and pair of channels."""
POINTS = np.array([0, 1, -1, 2, -2]) / np.sqrt(2)
"""The five finite points p of `winograd`."""

prefer_wide_vectors()
ROWS = 6
"""Number of tiles whose sums are in registers at a time."""
LANES, COLUMNS = (16, 4) if "avx512f" in features() else (8, 2)
"""Numbers in a vector, and vectors of outputs that are summed at a time for each of `ROWS` tiles."""
PANEL = COLUMNS * LANES
"""Number of output channels that are computed at a time."""
TILES = 4 * ROWS
"""Number of tiles in a group: with 64 channels, they and their products take less than half a megabyte."""

_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)
_VECTOR, _INTEGERS = ir.VectorType(_FLOAT, LANES), ir.VectorType(ir.IntType(32), LANES)


def matrices() -> tuple[Matrix, Matrix, Matrix]:
    """Return the matrices that transform inputs (Bᵀ, 6×6), weights (G, 6×3) and outputs (Aᵀ, 4×6) (`winograd`)."""
    others = [np.delete(POINTS, j) for j in range(len(POINTS))]
    norms = np.array([[np.prod(point - other)] for point, other in zip(POINTS, others, strict=True)])
    infinity = np.eye(IN)[-1:]
    inputs = np.array([[*np.poly(other)[::-1], 0] for other in others] + [np.poly(POINTS)[::-1]])
    weights = np.vstack([np.vander(POINTS, 3, increasing=True) / norms, infinity[:, -3:]])
    outputs = np.vstack([np.vander(POINTS, OUT, increasing=True), infinity[:, -OUT:]]).T
    return inputs.round(15), weights, outputs  # rounding makes zeros exact, whose products are left out


INPUTS, WEIGHTS, OUTPUTS = matrices()


def _all(value: float) -> Any:
    return ir.Constant(_VECTOR, [float(value)] * LANES)


def _index(value: int) -> Any:
    return ir.Constant(_INDEX, value)


def _call(b: Any, name: str, *vectors: Any) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(vectors))
    return b.call(b.module.declare_intrinsic(f"llvm.{name}.v{LANES}f32", (), kind), vectors)


def _at(b: Any, base: Any, *offsets: Any) -> Any:
    for offset in offsets:
        base = b.gep(base, [offset], source_etype=_FLOAT)
    return base


def _load(b: Any, base: Any, *offsets: Any) -> Any:
    return b.load(b.bitcast(_at(b, base, *offsets), _VECTOR.as_pointer()), align=4, typ=_VECTOR)


def _store(b: Any, vector: Any, base: Any, *offsets: Any) -> None:
    b.store(vector, b.bitcast(_at(b, base, *offsets), _VECTOR.as_pointer()), align=4)


def _transform(b: Any, matrix: Matrix, rows: list[list[Any]]) -> list[list[Any]]:
    """Return the product matrix·x·matrixᵀ, where x has rows of vectors. `b` is the builder of a function."""
    for _ in range(2):
        rows = [[_sum(b, weights, row) for weights in matrix] for row in zip(*rows, strict=True)]
    return rows


def _sum(b: Any, weights: Matrix, vectors: tuple[Any, ...]) -> Any:
    terms = [(weight, vector) for weight, vector in zip(weights, vectors, strict=True) if weight]
    weight, vector = terms.pop()  # often the weight is 1, and the compiler removes the product
    total = b.fmul(_all(weight), vector)
    for weight, vector in terms:
        total = _call(b, "fmuladd", _all(weight), vector, total)
    return total


def _silu(b: Any, x: Any) -> Any:
    """Return silu(x) = x/(1 + e^−x). For whole n and |r| ≤ ln 2/2, e^−x is 2ⁿ·eʳ; eʳ is a polynomial of Cephes."""
    t = _call(b, "minnum", _call(b, "maxnum", b.fneg(x), _all(-87)), _all(87))
    n = _call(b, "rint", b.fmul(t, _all(1 / np.log(2))))
    # ln 2 in two parts. The first has few digits, so that n times it is exact.
    r = _call(b, "fmuladd", n, _all(2.12194440e-4), _call(b, "fmuladd", n, _all(-0.693359375), t))
    series = _all(1.9875691500e-4)
    for weight in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1, 1):
        series = _call(b, "fmuladd", series, r, _all(weight))
    exponent = b.add(b.fptosi(n, _INTEGERS), ir.Constant(_INTEGERS, [127] * LANES))
    power = b.bitcast(b.shl(exponent, ir.Constant(_INTEGERS, [23] * LANES)), _VECTOR)
    return b.fdiv(x, _call(b, "fmuladd", series, power, _all(1)))


def _array(context: Any, b: Any, kind: Any, value: Any) -> tuple[Any, list[Any]]:
    """Return the pointer to the data of an array, and its shape. `kind` is the array's type in numba."""
    array = context.make_array(kind)(context, b, value)
    return array.data, cgutils.unpack_tuple(b, array.shape)


def _pixels(b: Any, image: Any, shape: list[Any], spare: Any, corner: list[Any], side: int) -> list[list[Any]]:
    """Return pointers to the pixels of a square of an image (H, W, C), or to `spare` for pixels outside the image."""
    (height, width, channels), (top, left) = shape, corner
    pointers: list[list[Any]] = []
    for y in (b.add(top, _index(i)) for i in range(side)):
        pointers.append([])
        for x in (b.add(left, _index(j)) for j in range(side)):
            inside = b.and_(b.icmp_unsigned("<", y, height), b.icmp_unsigned("<", x, width))  # −1 is large
            pixel = _at(b, image, b.mul(b.add(b.mul(y, width), x), channels))
            pointers[-1].append(b.select(inside, pixel, spare))
    return pointers


@intrinsic
def _enter(_: Any, image: Any, zeros: Any, _top: Any, _left: Any, transformed: Any) -> Any:
    """Write the inputs d of one tile, transformed to Bᵀ d B, to `transformed` (36, I).

    The inputs are pixels of an image (H, W, I). The outputs of the tile begin at (_top, _left).
    """

    def generate(context: Any, b: Any, signature: Any, given: Any) -> Any:
        (source, shape), (outside, _), (target, _) = (
            _array(context, b, signature.args[i], given[i]) for i in (0, 1, 4)
        )
        corner = [b.sub(side, _index(1)) for side in given[2:4]]
        pixels = _pixels(b, source, shape, outside, corner, IN)
        with cgutils.for_range(b, b.udiv(shape[2], _index(LANES))) as loop:
            first = b.mul(loop.index, _index(LANES))
            values = _transform(b, INPUTS, [[_load(b, pixel, first) for pixel in row] for row in pixels])
            for position, value in enumerate(value for row in values for value in row):
                _store(b, value, target, b.mul(shape[2], _index(position)), first)
        return context.get_dummy_value()

    return types.void(image, zeros, types.int64, types.int64, transformed), generate


def _multiplying(stride: int) -> Any:
    @intrinsic
    def multiply(_: Any, rows: Any, weights: Any, products: Any) -> Any:
        """Write the products of `ROWS` rows (I,) and weights (I, PANEL).

        Rows and products lie `stride` rows apart in their arrays.
        """

        def generate(context: Any, b: Any, signature: Any, given: Any) -> Any:
            (left, _), (right, (depth, _)), (target, _) = (
                _array(context, b, *pair) for pair in zip(signature.args, given, strict=True)
            )
            sums = [[cgutils.alloca_once(b, _VECTOR) for _ in range(COLUMNS)] for _ in range(ROWS)]
            for total in (total for row in sums for total in row):
                b.store(_all(0), total)
            undefined, same = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_INTEGERS, [0] * LANES)
            with cgutils.for_range(b, depth) as loop:
                start = b.mul(loop.index, _index(PANEL))
                vectors = [_load(b, right, start, _index(LANES * column)) for column in range(COLUMNS)]
                for number, row in enumerate(sums):
                    value = b.load(_at(b, left, b.mul(depth, _index(stride * number)), loop.index), typ=_FLOAT)
                    value = b.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
                    value = b.shuffle_vector(value, undefined, same)
                    for total, vector in zip(row, vectors, strict=True):
                        b.store(_call(b, "fmuladd", value, vector, b.load(total, typ=_VECTOR)), total)
            for number, row in enumerate(sums):
                for column, total in enumerate(row):
                    _store(b, b.load(total, typ=_VECTOR), target, _index(PANEL * stride * number + LANES * column))
            return context.get_dummy_value()

        return types.void(rows, weights, products), generate

    return multiply


_multiply, _multiply_rows = _multiplying(PRODUCTS), _multiplying(1)


def _leaving(activate: bool) -> Any:
    @intrinsic
    def leave(
        _: Any, products: Any, scale: Any, shift: Any, image: Any, spare: Any, _top: Any, _left: Any, _at: Any
    ) -> Any:
        """Transform products m (36, PANEL) to Aᵀ m A, and write it to the tile at (_top, _left) of an image (H, W, O).

        They are scaled and shifted, and then activated or added to the image, in `PANEL` channels from `_at` on.
        """

        def generate(context: Any, b: Any, signature: Any, given: Any) -> Any:
            (source, _), (factors, _), (summands, _), (target, shape), (outside, _) = (
                _array(context, b, signature.args[i], given[i]) for i in range(5)
            )
            pixels = _pixels(b, target, shape, outside, given[5:7], OUT)
            with cgutils.for_range(b, _index(COLUMNS)) as loop:
                first = b.mul(loop.index, _index(LANES))
                channel = b.add(given[7], first)
                inner = [[_load(b, source, _index(PANEL * (IN * i + j)), first) for j in range(IN)] for i in range(IN)]
                factor, summand = _load(b, factors, channel), _load(b, summands, channel)
                for values, row in zip(_transform(b, OUTPUTS, inner), pixels, strict=True):
                    for value, pixel in zip(values, row, strict=True):
                        z = _call(b, "fmuladd", factor, value, summand)
                        output = _silu(b, z) if activate else b.fadd(_load(b, pixel, channel), z)
                        _store(b, output, pixel, channel)
            return context.get_dummy_value()

        offsets = (types.int64,) * 3
        return types.void(products, scale, shift, image, spare, *offsets), generate

    return leave


_leave_activated, _leave_added = _leaving(True), _leaving(False)


@compiled(nogil=True)
def convolve_tiles(
    x: Floats,
    weights: Floats,
    scale: Floats,
    shift: Floats,
    out: Floats,
    above: int,
    activate: bool,
    start: int,
    stop: int,
) -> None:
    """Compute the tiles from number `start` to `stop` of the convolution that `winograd.convolve` describes."""
    inputs, across = x.shape[2], -(-out.shape[1] // OUT)
    transformed = np.zeros((TILES, PRODUCTS, inputs), np.float32)
    products = np.empty((TILES, PRODUCTS, PANEL), np.float32)
    zeros, spare = np.zeros(inputs, np.float32), np.zeros(out.shape[2], np.float32)
    for first in range(start, stop, TILES):
        count = min(TILES, stop - first)
        for i in range(count):
            tile = first + i
            _enter(x, zeros, tile // across * OUT + above, tile % across * OUT, transformed[i])
        for panel in range(len(weights)):
            for position in range(PRODUCTS):
                for i in range(0, count, ROWS):
                    _multiply(transformed[i:, position], weights[panel, position], products[i:, position])
            for i in range(count):
                tile = first + i
                top, left = tile // across * OUT, tile % across * OUT
                if activate:
                    _leave_activated(products[i], scale, shift, out, spare, top, left, panel * PANEL)
                else:
                    _leave_added(products[i], scale, shift, out, spare, top, left, panel * PANEL)


@compiled(nogil=True)
def shrink_pixels(x: Floats, weights: Floats, bias: Floats, out: Floats, start: int, stop: int) -> None:
    """Compute the 2×2 convolution with stride 2 of x (2H, 2W, I), and write it to out (H, W, O).

    The weights are (O/PANEL, 4·I, PANEL). The pixels of `out` from number `start` to `stop` are computed.
    """
    width, inputs = out.shape[1], x.shape[2]
    rows, products = np.zeros((ROWS, 4 * inputs), np.float32), np.empty((ROWS, PANEL), np.float32)
    for first in range(start, stop, ROWS):
        count = min(ROWS, stop - first)
        for i in range(count):
            top, left = 2 * ((first + i) // width), 2 * ((first + i) % width)
            for corner in range(4):
                for channel in range(inputs):
                    rows[i, corner * inputs + channel] = x[top + corner // 2, left + corner % 2, channel]
        for panel in range(len(weights)):
            _multiply_rows(rows, weights[panel], products)
            for i in range(count):
                y, column = divmod(first + i, width)
                for channel in range(PANEL):
                    out[y, column, PANEL * panel + channel] = products[i, channel] + bias[PANEL * panel + channel]


@compiled(nogil=True)
def grow_pixels(x: Floats, weights: Floats, bias: Floats, out: Floats, start: int, stop: int) -> None:
    """Add the transposed 2×2 convolution of x (H, W, I), and the bias, to out (2H, 2W, O).

    The weights are (4·O/PANEL, I, PANEL): all channels of the upper left output pixel, then of the upper right one, and
    so on. The pixels of x from number `start` to `stop` are used.
    """
    _, width, inputs = x.shape
    panels = len(weights) // 4
    rows, products = np.zeros((ROWS, inputs), np.float32), np.empty((ROWS, PANEL), np.float32)
    for first in range(start, stop, ROWS):
        count = min(ROWS, stop - first)
        for i in range(count):
            rows[i] = x[(first + i) // width, (first + i) % width]
        for panel in range(len(weights)):
            corner, start_channel = panel // panels, PANEL * (panel % panels)
            _multiply_rows(rows, weights[panel], products)
            for i in range(count):
                top, left = 2 * ((first + i) // width) + corner // 2, 2 * ((first + i) % width) + corner % 2
                for channel in range(PANEL):
                    out[top, left, start_channel + channel] += products[i, channel] + bias[start_channel + channel]


@compiled(nogil=True)
def fold(planes: Floats, out: Floats) -> None:
    """Fold squares of 2×2 pixels of planes (K, H, W) into channels of `out` (≥ ⌈H/2⌉, ≥ ⌈W/2⌉, ≥ 4K)."""
    count, height, width = planes.shape
    for y in range(height):
        for plane in range(count):
            channel = 4 * plane + 2 * (y % 2)
            for x in range(width):
                out[y // 2, x // 2, channel + x % 2] = planes[plane, y, x]


@compiled(nogil=True)
def unfold(x: Floats, out: Floats) -> None:
    """Unfold the first 4K channels of x (H, W, C) into the planes `out` (K, 2H, 2W): the inverse of `fold`."""
    count, height, width = out.shape
    for plane in range(count):
        for y in range(height):
            channel = 4 * plane + 2 * (y % 2)
            for column in range(width):
                out[plane, y, column] = x[y // 2, column // 2, channel + column % 2]
