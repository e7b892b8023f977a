"""The network for photographs as an ONNX graph, which ONNX Runtime runs on the CPU and which is exported.

    inputs   y (N, K, H, W), the stacked planes that the config names, of any height and width; snr (1,)
    output   x0 (N, 3, H, W), the expected picture, clamped to [−1, 1]

It writes in ONNX's operators what `network.Network.forward` computes in PyTorch, under the same names, and a test
compares the two. One order differs: ONNX folds pixels into channels with the colour last, and PyTorch with the colour
first, so the inputs of the first convolution are permuted.

Weights whose values are numbers of half precision, as in every stored network, are stored in half precision, which
halves the graph. ONNX Runtime converts them to the same fp32 numbers when it loads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from dipp.models.config import CHANNELS, COLOURS, FOLD, LARGEST_SNR, PRECISION_SCALE, SNR_RANGE, WAVES, Config

OPSET = 18
"""Version of ONNX's set of operators."""
IR_VERSION = 9
"""Version of the ONNX file format, which ONNX Runtime reads since its version 1.17."""
LEAST_HALVED = 256
"""Smallest number of elements of a tensor that is stored in half precision."""

Array = NDArray[Any]


class Build:
    """A graph under construction: its nodes and stored tensors, in the order in which they are added.

    Args:
        config: Config of the network.
        weights: Its weights by their names, fp32.
    """

    def __init__(self, config: Config, weights: Mapping[str, Array]) -> None:
        self.config, self.weights = config, weights
        self.channels = {name: CHANNELS[name] for name in config.planes if name != "inside"}
        """Number of channels of each plane of the input."""
        self.nodes: list[NodeProto] = []
        self.stored: list[TensorProto] = []

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output, and return the name of the output."""
        output = f"{operator}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, values: Any, kind: type = np.float32) -> str:
        """Store a constant tensor, and return its name.

        Args:
            values: The values.
            kind: NumPy type of the stored numbers; fp32 by default.
        """
        name = f"constant.{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def weight(self, name: str, values: Array | None = None) -> str:
        """Store a weight, in half precision if that is exact, and return the name of its fp32 values.

        Args:
            name: Name of the weight.
            values: The values; by default those of the network's weight of this name.
        """
        values = self.weights[name] if values is None else values
        with np.errstate(over="ignore"):  # a value that is too large is not exact either
            half = values.astype(np.float16)
        if values.size < LEAST_HALVED or not np.array_equal(half.astype(np.float32), values):
            self.stored.append(numpy_helper.from_array(values, name))
            return name
        self.stored.append(numpy_helper.from_array(half, name))
        return self.node("Cast", name, to=TensorProto.FLOAT)

    def network(self) -> None:
        """Add the nodes of the whole network, which compute the same as `network.Network.forward`."""
        stride, unit = self.config.stride, self.constant(1.0)
        snr = self.node("Min", "snr", self.constant(LARGEST_SNR))
        parts = self.parts()
        y, known = parts["state"], parts.get("precision", snr)
        enter, out, skip = self.conditioned(known)
        height, width = (self.node("Shape", "y", start=axis, end=axis + 1) for axis in (2, 3))
        batch = self.node("Shape", "y", start=0, end=1)
        plane = self.node("Concat", batch, self.constant([1], np.int64), height, width, axis=0)
        told = [self.node("Mul", enter, y), self.node("Expand", unit, plane)]
        if "precision" in parts:
            relative = self.node("Sub", self.logarithm(known), self.logarithm(snr))
            told.append(self.node("Div", relative, self.constant(PRECISION_SCALE)))
        if "estimate" in parts:
            scale, _, share = self.conditioned(parts["estimate precision"])
            told += [self.node("Mul", scale, parts["estimate"]), share]
        if "compared" in parts:
            deviation = self.constant(self.config.deviation)
            told += [self.node("Div", parts["compared"], deviation), parts["answer"]]
        planes = self.node("Concat", *told, axis=1)
        # Padding to a multiple of the stride. As in Python, the remainder has the sign of the divisor.
        sides = self.node("Concat", height, width, axis=0)
        missing = self.node("Mod", self.node("Neg", sides), self.constant([stride, stride], np.int64))
        pads = self.node("Concat", self.constant([0] * 6, np.int64), missing, axis=0)
        correction = self.correction(self.node("Pad", planes, pads), snr)
        zeros, axes = (self.constant(values, np.int64) for values in ([0, 0], [2, 3]))
        correction = self.node("Slice", correction, zeros, sides, axes)
        x0 = self.node("Add", self.node("Mul", skip, y), self.node("Mul", out, correction))
        clamped = helper.make_node("Clip", [x0, self.constant(-1.0), unit], ["x0"])
        self.nodes.append(clamped)

    def parts(self) -> dict[str, str]:
        """Add a split of the input into its planes, and return their names in the graph by the planes' names."""
        if len(self.channels) == 1:
            return {"state": "y"}
        outputs = [f"y.{number}" for number in range(len(self.channels))]
        split = self.constant([*self.channels.values()], np.int64)
        self.nodes.append(helper.make_node("Split", ["y", split], outputs, axis=1))
        return dict(zip(self.channels, outputs, strict=True))

    def conditioned(self, snr: str) -> tuple[str, str, str]:
        """Add the nodes of the factors in, out and skip at an SNR (`Config.conditioned`), and return their names."""
        deviation, one = self.config.deviation, self.constant(1.0)
        power = self.node("Add", one, self.node("Mul", snr, self.constant(deviation**2)))
        enter = self.node("Sqrt", self.node("Div", snr, power))
        out = self.node("Div", self.constant(deviation), self.node("Sqrt", power))
        return enter, out, self.node("Sub", one, self.node("Div", one, power))

    def logarithm(self, snr: str) -> str:
        """Add ln SNR, bounded to `SNR_RANGE`, and return its name."""
        low, high = (self.constant(end) for end in SNR_RANGE)
        return self.node("Log", self.node("Clip", snr, low, high))

    def correction(self, planes: str, snr: str) -> str:
        """Add the nodes of the correction F (`network.Network.correction`), and return its name.

        Args:
            planes: Name of the input planes.
            snr: Name of the SNRs.
        """
        level = self.node("Mul", self.logarithm(snr), self.constant(WAVES[None]))
        both = self.node("Concat", self.node("Sin", level), self.node("Cos", level), axis=1)
        embedding = self.silu(self.linear(both, "embed.0"))
        first = self.weights["enter.weight"].reshape(-1, self.config.inputs, FOLD**2, 3, 3).swapaxes(1, 2)
        first = np.ascontiguousarray(first.reshape(self.weights["enter.weight"].shape))
        folded = self.node("SpaceToDepth", planes, blocksize=FOLD)
        x = self.node("Conv", folded, self.weight("enter.weight", first), self.weight("enter.bias"), pads=[1] * 4)
        passed = []
        for scale in range(len(self.config.up)):
            x = self.stage(x, f"downs.{scale}", self.config.down[scale], embedding)
            passed.append(x)
            x = self.convolution(x, f"shrink.{scale}", strides=[2, 2])
        x = self.stage(x, f"downs.{len(passed)}", self.config.down[-1], embedding)
        for scale in reversed(range(len(self.config.up))):
            name = f"grow.{scale}"
            up = self.node(
                "ConvTranspose", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), strides=[2, 2]
            )
            x = self.stage(self.node("Add", up, passed.pop()), f"ups.{scale}", self.config.up[scale], embedding)
        return self.node("DepthToSpace", self.same(x, "leave"), blocksize=FOLD, mode="CRD")

    def stage(self, x: str, name: str, blocks: int, embedding: str) -> str:
        """Add the residual blocks of a stage (`network.Stage`), and return the name of the output.

        Args:
            x: Name of the input.
            name: Name of the stage in the network.
            blocks: Number of blocks.
            embedding: Name of the embedding of ln SNR.
        """
        for number in range(blocks):
            block = f"{name}.{number}"
            flat = self.linear(embedding, f"{block}.modulation")
            wide = self.node("Unsqueeze", flat, self.constant([2, 3], np.int64))
            scale, shift = self.halves(wide)
            hidden = self.same(x, f"{block}.first")
            hidden = self.node("Add", self.node("Mul", hidden, self.node("Add", scale, self.constant(1.0))), shift)
            x = self.node("Add", x, self.same(self.silu(hidden), f"{block}.second"))
        return x

    def halves(self, x: str) -> tuple[str, str]:
        """Add a split of the channels into two halves, and return their names."""
        outputs = [f"Split.{len(self.nodes)}.{half}" for half in (0, 1)]
        self.nodes.append(helper.make_node("Split", [x], outputs, axis=1, num_outputs=2))
        return outputs[0], outputs[1]

    def silu(self, x: str) -> str:
        """Add x·sigmoid(x), and return its name."""
        return self.node("Mul", x, self.node("Sigmoid", x))

    def linear(self, x: str, name: str) -> str:
        """Add the linear layer `name`, and return the name of its output.

        Args:
            x: Name of the input.
            name: Name of the layer in the network.
        """
        return self.node("Gemm", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), transB=1)

    def same(self, x: str, name: str) -> str:
        """Add the 3×3 convolution `name`, which keeps the size, and return the name of its output.

        Args:
            x: Name of the input.
            name: Name of the layer in the network.
        """
        return self.convolution(x, name, pads=[1] * 4)

    def convolution(self, x: str, name: str, **attributes: Any) -> str:
        """Add the convolution `name` with its bias, and return the name of its output.

        Args:
            x: Name of the input.
            name: Name of the layer in the network.
            attributes: Attributes of the ONNX operator.
        """
        return self.node("Conv", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), **attributes)


def graph(
    config: Config, weights: Mapping[str, Array], facts: Mapping[str, str], kind: type[Build] = Build
) -> ModelProto:
    """Return a network as an ONNX model.

    Args:
        config: Config of the network.
        weights: Its weights by their names, fp32.
        facts: Metadata that the model carries, by key.
        kind: Class that writes the nodes: `Build`, or `winograd_graph.WinogradBuild` for fewer multiplications.
    """
    build = kind(config, weights)
    build.network()
    sides = ["batch", COLOURS, "height", "width"]
    told = ["batch", sum(build.channels.values()), "height", "width"]
    onnx_graph = helper.make_graph(
        build.nodes,
        "PhotoNet",
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, told),
            helper.make_tensor_value_info("snr", TensorProto.FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, sides)],
        build.stored,
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(onnx_graph, producer_name="dipp", ir_version=IR_VERSION, opset_imports=opset)
    helper.set_model_props(model, dict(facts))
    return model
