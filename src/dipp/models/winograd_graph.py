"""The network for photographs as an ONNX graph with fewer multiplications, which the page runs in WebAssembly.

ONNX Runtime convolves directly. Here the 3×3 convolutions of the large scales are Winograd's (`winograd` has the
mathematics), written in ONNX's operators: transforms of tiles, and products of matrices between them. In WebAssembly a
call takes less time, and more memory. The file stores the weights as they are, and the runtime transforms them as it
loads it.

Within a stage, the position in a tile of 4×4 pixels is the first pair of axes: (4, 4, N, C, H/4, W/4). So a transform
is a product with one small matrix, and the pixels that a tile needs from its neighbour are a slice, shifted by one
tile.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dipp.models.config import Config
from dipp.models.graph import Array, Build
from dipp.models.winograd_kernels import IN, INPUTS, OUT, OUTPUTS, PRODUCTS, WEIGHTS

AXES = 6
"""Number of axes within a stage: row and column in the tile, picture, channel, row and column of the tile."""


class WinogradBuild(Build):
    """A graph under construction (`graph.Build`), whose large scales have Winograd's convolutions."""

    def __init__(self, config: Config, weights: Mapping[str, Array]) -> None:
        super().__init__(config, weights)
        self.inputs, self.kernels, self.outputs = map(self.constant, (INPUTS, np.kron(WEIGHTS, WEIGHTS), OUTPUTS))
        self.pictures, self.tiles = "", ""
        """Names of the shapes (N, C) and (H/4, W/4) of the stage under construction; empty outside of a stage."""

    def stage(self, x: str, name: str, blocks: int, embedding: str) -> str:
        """Add the blocks of a stage, plain at scales whose sides 4 may not divide. Return the name of the output."""
        scale = int(name.rpartition(".")[2])
        if not blocks or len(self.config.channels) - scale < OUT.bit_length():
            return super().stage(x, name, blocks, embedding)
        self.pictures = self.node("Shape", x, start=0, end=2)
        folded = self.node("SpaceToDepth", x, blocksize=OUT)
        whole = self.node("Shape", folded)
        batch, channels = (self.node("Shape", x, start=axis, end=axis + 1) for axis in (0, 1))
        self.tiles = self.node("Shape", folded, start=2, end=4)
        apart = self.reshaped(folded, batch, [OUT, OUT], channels, self.tiles)
        x = super().stage(self.node("Transpose", apart, perm=[1, 2, 0, 3, 4, 5]), name, blocks, embedding)
        folded = self.node("Reshape", self.node("Transpose", x, perm=[2, 0, 1, 3, 4, 5]), whole)
        self.pictures, self.tiles = "", ""
        return self.node("DepthToSpace", folded, blocksize=OUT, mode="DCR")

    def same(self, x: str, name: str) -> str:
        """Add the 3×3 convolution `name`, by Winograd's products within a stage, and return the name of its output."""
        if not self.tiles:
            return super().same(x, name)
        out, into, _, _ = self.weights[f"{name}.weight"].shape
        weight = self.node("Transpose", self.weight(f"{name}.weight"), perm=[2, 3, 0, 1])
        weight = self.node("MatMul", self.kernels, self.reshaped(weight, [9, -1]))
        x = self.node("MatMul", self.inputs, self.reshaped(self.widened(x, 1), [OUT, IN, -1]))
        x = self.reshaped(x, [OUT, IN], self.pictures, self.tiles)
        x = self.node("MatMul", self.inputs, self.reshaped(self.widened(x, 0), [IN, -1]))
        x = self.reshaped(x, [PRODUCTS], self.pictures, [-1])
        x = self.node("MatMul", self.reshaped(weight, [PRODUCTS, 1, out, into]), x)
        x = self.node("MatMul", self.outputs, self.reshaped(x, [IN, -1]))
        x = self.node("MatMul", self.outputs, self.reshaped(x, [OUT, IN, -1]))
        bias = self.node("Unsqueeze", self.weight(f"{name}.bias"), self.constant([1, 2], np.int64))
        return self.node("Add", self.reshaped(x, [OUT, OUT], self.pictures, self.tiles), bias)

    def widened(self, x: str, axis: int) -> str:
        """Add tiles that are extended along an axis by one position of each neighbour or 0, and return their name."""
        sides = []
        for position, by in ((OUT - 1, 1), (0, -1)):
            bounds = (self.constant([bound], np.int64) for bound in (position, position + 1, axis))
            pads = np.zeros(2 * AXES, np.int64)
            pads[[AXES - 2 + axis, 2 * AXES - 2 + axis]] = by, -by
            sides.append(self.node("Pad", self.node("Slice", x, *bounds), self.constant(pads, np.int64)))
        before, after = sides
        return self.node("Concat", before, x, after, axis=axis)

    def reshaped(self, x: str, *shape: str | list[int]) -> str:
        """Add a reshape of x to a shape, given as numbers and as names of computed shapes, and return its name."""
        parts = [part if isinstance(part, str) else self.constant(part, np.int64) for part in shape]
        return self.node("Reshape", x, parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0))
