"""Compiled loops over the bits of a scan: reading every kind of scan, and writing one interleaved sequential scan.

All coefficients lie in one array of 16-bit integers, component after component, block after block, each block row by
row. A row of `layout` describes one component of a scan:

    offset of the component · blocks in a row · blocks of an MCU across · down · MCUs in a row · in a column · table

The reader's state is an array of four numbers: the position of the next byte, the bits that were read and not used yet,
the number of these bits, and the number of bits that were read beyond the end. Functions that read get the bytes of the
scan (`data`), the position after the last byte that they may read (`end`) and the state, which they change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dipp.compiling import compiled
from dipp.redaction.jpeg.segments import ZIGZAG

SEQUENTIAL, DC_FIRST, DC_REFINE, AC_FIRST, AC_REFINE = range(5)
"""Kinds of scans."""
WHOLE, CUT, WRONG = range(3)
"""How reading ended: successfully, at an early end of the bits, or at an invalid code."""
NEXT, HELD, COUNT, BEYOND = range(4)
"""Places of the numbers in the state."""


@compiled()
def _need(data: Any, end: int, state: Any, bits: int) -> None:
    """Read bytes until the state holds at least `bits` bits; beyond the end, bytes are zero."""
    while state[COUNT] < bits:
        byte = np.int64(0)
        if state[NEXT] < end:
            byte = np.int64(data[state[NEXT]])
            state[NEXT] += 1
        else:
            state[BEYOND] += 8
        state[HELD] = ((state[HELD] << 8) | byte) & 0xFFFFFFFFFFFF
        state[COUNT] += 8


@compiled()
def _take(data: Any, end: int, state: Any, bits: int) -> Any:
    """Return the next `bits` bits as a number."""
    if bits == 0:
        return 0
    _need(data, end, state, bits)
    state[COUNT] -= bits
    return (state[HELD] >> state[COUNT]) & ((1 << bits) - 1)


@compiled()
def _symbol(data: Any, end: int, state: Any, table: Any) -> Any:
    """Return the next symbol by a lookup table (`huffman.lookup`); −1 if no code fits."""
    _need(data, end, state, 16)
    entry = table[(state[HELD] >> (state[COUNT] - 16)) & 0xFFFF]
    if entry == 0:
        return -1
    state[COUNT] -= entry >> 8
    return entry & 255


@compiled()
def _signed(value: int, bits: int) -> Any:
    """Return the signed number that a value of `bits` bits encodes in JPEG."""
    return value if bits == 0 or value >> (bits - 1) else value - (1 << bits) + 1


@compiled()
def _sequential(data: Any, end: int, state: Any, dc: Any, ac: Any, block: Any, last_dc: int) -> Any:
    """Read a whole block; return its DC coefficient, or a number beyond all coefficients if no code fits.

    `dc` and `ac` are lookup tables, and `last_dc` is the DC coefficient of the component's block before.
    """
    bits = _symbol(data, end, state, dc)
    if bits < 0 or bits > 15:
        return 1 << 20
    value = last_dc + _signed(_take(data, end, state, bits), bits)
    block[0] = value
    at = 1
    while at < 64:
        symbol = _symbol(data, end, state, ac)
        if symbol < 0:
            return 1 << 20
        run, bits = symbol >> 4, symbol & 15
        if bits == 0:
            if run != 15:
                break
            at += 16
            continue
        at += run
        if at > 63:
            return 1 << 20
        block[ZIGZAG[at]] = _signed(_take(data, end, state, bits), bits)
        at += 1
    return value


@compiled()
def _ac_first(data: Any, end: int, state: Any, ac: Any, block: Any, span: Any, eobs: int) -> Any:
    """Read the first bits of a block's AC coefficients; return how many next blocks have none, or −1 if invalid.

    `ac` is a lookup table, `span` that of `read`, and `eobs` the number that the call for the last block returned.
    """
    if eobs > 0:
        return eobs - 1
    at = span[0]
    while at <= span[1]:
        symbol = _symbol(data, end, state, ac)
        if symbol < 0:
            return -1
        run, bits = symbol >> 4, symbol & 15
        if bits == 0:
            if run != 15:
                return (1 << run) - 1 + _take(data, end, state, run)
            at += 16
            continue
        at += run
        if at > span[1]:
            return -1
        block[ZIGZAG[at]] = _signed(_take(data, end, state, bits), bits) << span[3]
        at += 1
    return 0


@compiled()
def _correct(data: Any, end: int, state: Any, block: Any, at: int, bit: int) -> None:
    """Read whether the coefficient at `at`, which is not zero, has a bit more, and add that bit to its magnitude."""
    if _take(data, end, state, 1) and not abs(block[at]) & bit:
        block[at] += bit if block[at] > 0 else -bit


@compiled()
def _ac_refine(data: Any, end: int, state: Any, ac: Any, block: Any, span: Any, eobs: int) -> Any:
    """Read one more bit of a block's AC coefficients; return how many next blocks have no new ones, or −1 if invalid.

    `ac` is a lookup table, `span` that of `read`, and `eobs` the number that the call for the last block returned.
    """
    bit, at = 1 << span[3], span[0]
    if eobs == 0:
        while at <= span[1]:
            symbol = _symbol(data, end, state, ac)
            if symbol < 0:
                return -1
            run, bits, value = symbol >> 4, symbol & 15, 0
            if bits == 0:
                if run != 15:
                    eobs = (1 << run) + _take(data, end, state, run)
                    break
            elif bits == 1:
                value = bit if _take(data, end, state, 1) else -bit
            else:
                return -1
            while at <= span[1]:
                coefficient = ZIGZAG[at]
                if block[coefficient] != 0:
                    _correct(data, end, state, block, coefficient, bit)
                else:
                    if run == 0:
                        break
                    run -= 1
                at += 1
            if value != 0:
                if at > span[1]:
                    return -1
                block[ZIGZAG[at]] = value
            at += 1
    if eobs > 0:
        while at <= span[1]:
            if block[ZIGZAG[at]] != 0:
                _correct(data, end, state, block, ZIGZAG[at], bit)
            at += 1
        eobs -= 1
    return eobs


@compiled()
def read(
    data: Any, bounds: Any, restart: int, kind: int, span: Any, layout: Any, dc: Any, ac: Any, coefficients: Any
) -> Any:
    """Read one scan into the coefficients, and return how reading ended: WHOLE, CUT or WRONG.

    Args:
        data: The bytes of the scan, uint8.
        bounds: Positions in `data` where the parts between restart markers end, int64.
        restart: Number of MCUs in a part; 0 if there is only one part.
        kind: Kind of the scan, such as SEQUENTIAL.
        span: First coefficient, last one, bit position before and after, int64.
        layout: (components, 7), int64, as described above.
        dc: Lookup tables (components, 65536) of DC coefficients.
        ac: Lookup tables (components, 65536) of AC coefficients.
        coefficients: All coefficients, int16, which are changed in place.
    """
    across, down = layout[0, 4], layout[0, 5]
    state, last_dc, eobs, part = np.zeros(4, np.int64), np.zeros(len(layout), np.int64), 0, 0
    for unit in range(across * down):
        if restart and unit and unit % restart == 0:
            if state[BEYOND] > state[COUNT]:
                return CUT
            part += 1
            if part >= len(bounds):
                return CUT
            state[:], last_dc[:], eobs = 0, 0, 0
            state[NEXT] = bounds[part - 1]
        end = bounds[part]
        row, column = unit // across, unit % across
        for component in range(len(layout)):
            for inner in range(layout[component, 2] * layout[component, 3]):
                y = row * layout[component, 3] + inner // layout[component, 2]
                x = column * layout[component, 2] + inner % layout[component, 2]
                start = layout[component, 0] + (y * layout[component, 1] + x) * 64
                block = coefficients[start : start + 64]
                if kind == SEQUENTIAL:
                    last_dc[component] = _sequential(
                        data, end, state, dc[component], ac[component], block, last_dc[component]
                    )
                    if abs(last_dc[component]) > 32767:
                        return WRONG
                elif kind == DC_FIRST:
                    bits = _symbol(data, end, state, dc[component])
                    if bits < 0 or bits > 15:
                        return WRONG
                    last_dc[component] += _signed(_take(data, end, state, bits), bits)
                    if abs(last_dc[component] << span[3]) > 32767:
                        return WRONG
                    block[0] = last_dc[component] << span[3]
                elif kind == DC_REFINE:
                    block[0] |= _take(data, end, state, 1) << span[3]
                else:
                    if kind == AC_FIRST:
                        eobs = _ac_first(data, end, state, ac[component], block, span, eobs)
                    else:
                        eobs = _ac_refine(data, end, state, ac[component], block, span, eobs)
                    if eobs < 0:
                        return WRONG
        if state[BEYOND] > 64:  # far beyond the end
            return CUT
    return CUT if state[BEYOND] > state[COUNT] else WHOLE


@compiled()
def _size(value: int) -> Any:
    """Return the number of bits of the magnitude of a number."""
    value, bits = abs(value), 0
    while value:
        value, bits = value >> 1, bits + 1
    return bits


@compiled()
def _put(out: Any, state: Any, value: int, bits: int) -> None:
    """Write the lowest `bits` bits of a value into `out`; each byte 0xFF is followed by a byte 0, as JPEG demands."""
    state[HELD] = (state[HELD] << bits) | value
    state[COUNT] += bits
    while state[COUNT] >= 8:
        state[COUNT] -= 8
        byte = (state[HELD] >> state[COUNT]) & 255
        out[state[NEXT]] = byte
        state[NEXT] += 1
        if byte == 255:
            out[state[NEXT]] = 0
            state[NEXT] += 1
    state[HELD] &= (1 << state[COUNT]) - 1


@compiled()
def write(layout: Any, real: Any, coefficients: Any, codes: Any, lengths: Any, out: Any, counts: Any) -> Any:
    """Write one interleaved sequential scan, and return the number of bytes; if `out` is empty, only count symbols.

    Blocks that only fill up the last MCUs repeat the DC coefficient before them, which costs almost no bits.

    Args:
        layout: (components, 7), int64; the last column is 0 for the first component, and 1 for others.
        real: (components, 2): numbers of rows and columns of blocks that belong to the picture.
        coefficients: All coefficients, int16.
        codes: (2 tables, 2 kinds, 256): the code of each symbol, for DC and for AC coefficients.
        lengths: (2, 2, 256): the length of each code in bits.
        out: Array that receives the bytes, uint8, or an empty array.
        counts: (2, 2, 256): receives the number of each symbol. AC coefficients of more than 15 bits count as 15.

    Returns:
        Number of bytes.
    """
    across, down = layout[0, 4], layout[0, 5]
    state, last_dc = np.zeros(4, np.int64), np.zeros(len(layout), np.int64)
    writing = len(out) > 0
    empty = np.zeros(64, np.int16)
    for unit in range(across * down):
        row, column = unit // across, unit % across
        for component in range(len(layout)):
            table = layout[component, 6]
            for inner in range(layout[component, 2] * layout[component, 3]):
                y = row * layout[component, 3] + inner // layout[component, 2]
                x = column * layout[component, 2] + inner % layout[component, 2]
                start = layout[component, 0] + (y * layout[component, 1] + x) * 64
                block = coefficients[start : start + 64]
                first = np.int64(block[0])
                if y >= real[component, 0] or x >= real[component, 1]:
                    block, first = empty, last_dc[component]
                change, last_dc[component] = first - last_dc[component], first
                bits = _size(change)
                counts[table, 0, bits] += 1
                if writing:
                    _put(out, state, codes[table, 0, bits], lengths[table, 0, bits])
                    _put(out, state, change if change >= 0 else change + (1 << bits) - 1, bits)
                run = 0
                for at in range(1, 64):
                    value = np.int64(block[ZIGZAG[at]])
                    if value == 0:
                        run += 1
                        continue
                    while run > 15:
                        counts[table, 1, 0xF0] += 1
                        if writing:
                            _put(out, state, codes[table, 1, 0xF0], lengths[table, 1, 0xF0])
                        run -= 16
                    bits = _size(value)
                    symbol = run << 4 | min(bits, 15)
                    counts[table, 1, symbol] += 1
                    if writing:
                        _put(out, state, codes[table, 1, symbol], lengths[table, 1, symbol])
                        _put(out, state, value if value >= 0 else value + (1 << bits) - 1, bits)
                    run = 0
                if run:
                    counts[table, 1, 0] += 1
                    if writing:
                        _put(out, state, codes[table, 1, 0], lengths[table, 1, 0])
    if writing and state[COUNT]:
        _put(out, state, (1 << (8 - state[COUNT])) - 1, 8 - state[COUNT])
    return state[NEXT]
