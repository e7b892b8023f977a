"""The exported network gives the denoiser's pictures, at any size and SNR, from weights in half precision."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from helpers.commands import Command
from helpers.networks import SMALL, random_network, tiny_denoiser, weights_of
from helpers.refusals import printed, refused

from dipp import models
from dipp.models import photonet
from dipp.models.config import Config
from dipp.models.evidence import Evidence
from dipp.models.export import export
from dipp.models.graph import Build, graph
from dipp.models.network import Network
from dipp.models.runtime import Runtime
from dipp.models.winograd_graph import WinogradBuild

CLOSE = 1e-4


def made(network: Network, kind: type[Build]) -> Any:
    """Return the ONNX model of a network."""
    return graph(network.config, weights_of(network), {}, kind)


ONE_SCALE = Config(channels=(7,), down=(2,), up=(), embedding=5, deviation=1.5)
UNEVEN = Config(channels=(5, 9, 3), down=(0, 2, 1), up=(1, 0), embedding=3, deviation=0.1)


@pytest.mark.parametrize(
    "config", [SMALL, Config(), ONE_SCALE, UNEVEN], ids=["small", "default", "one scale", "uneven"]
)
def test_onnx_runtime_computes_the_denoisers_pictures(config: Config, tmp_path: Path, run: Command) -> None:
    photonet.write(tmp_path / "model", config, dict(random_network(config).named_parameters()))
    code, out, err = run("export", tmp_path / "model", "-o", tmp_path / "m.onnx")
    assert code == 0, err
    denoiser = models.load(tmp_path / "model")
    assert denoiser.identity in out
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    assert facts["identity"] == denoiser.identity
    assert json.loads(facts["alphas_cumprod"]) == denoiser.schedule.alphas_cumprod.tolist()
    assert (int(facts["stride"]), int(facts["margin"])) == (config.stride, config.margin)
    generator = torch.Generator().manual_seed(0)
    for shape, snr in (((1, 32, 32), 1.0), ((2, 45, 70), 0.02), ((1, 1, 3), 0.0), ((1, 200, 31), 300.0)):
        y = torch.randn(shape[0], 3, *shape[1:], generator=generator)
        (found,) = session.run(None, {"y": y.numpy(), "snr": np.array([snr], np.float32)})
        np.testing.assert_allclose(found, denoiser.predict(Evidence(y, snr)).numpy(), rtol=0, atol=CLOSE)
        assert isinstance(denoiser, photonet.PhotoDenoiser)
        expected = denoiser.network(y, torch.tensor([snr])).clamp(-1, 1)
        np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=CLOSE)


@pytest.mark.parametrize("config", [SMALL, Config(), ONE_SCALE], ids=["small", "default", "one scale"])
def test_fewer_multiplications_give_the_same_pictures(config: Config) -> None:
    """The two graphs agree at borders as well, for several sizes and for two pictures at once."""
    network = random_network(config)
    plain, fewer = (
        onnxruntime.InferenceSession(made(network, kind).SerializeToString(), providers=["CPUExecutionProvider"])
        for kind in (Build, WinogradBuild)
    )
    random = np.random.default_rng(0)
    for shape, snr in (((1, 32, 32), 1.0), ((2, 45, 70), 0.02), ((1, 1, 3), 0.0), ((1, 200, 31), 300.0)):
        y = random.standard_normal((shape[0], plain.get_inputs()[0].shape[1], *shape[1:]), np.float32)
        given = {"y": y, "snr": np.array([snr], np.float32)}
        np.testing.assert_allclose(fewer.run(None, given)[0], plain.run(None, given)[0], rtol=0, atol=CLOSE)


def test_only_large_scales_take_fewer_multiplications() -> None:
    """Scales whose sides are whole tiles have no plain convolutions; a block has two."""
    network = random_network(Config())
    nodes = {kind: [node.op_type for node in made(network, kind).graph.node] for kind in (Build, WinogradBuild)}
    saved = nodes[Build].count("Conv") - nodes[WinogradBuild].count("Conv")
    assert saved == 2 * (sum(Config().down[:3]) + sum(Config().up[:3]))


def test_weights_beyond_half_precision_are_stored_whole() -> None:
    network = random_network()
    network.enter.weight[0, 0] = 1e6
    y = torch.zeros(1, 3, 16, 16)
    found = Runtime(network.config, weights_of(network))(y.numpy(), 1.0)
    np.testing.assert_allclose(found, network(y, torch.ones(1)).clamp(-1, 1).numpy(), rtol=0, atol=CLOSE)


def test_the_file_is_as_small_as_the_weights(tmp_path: Path) -> None:
    photonet.write(tmp_path / "model", Config(), dict(random_network(Config()).named_parameters()))
    export(models.load(tmp_path / "model"), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").stat().st_size < 1.02 * (tmp_path / "model" / photonet.WEIGHTS).stat().st_size
    assert onnx.load(tmp_path / "m.onnx").opset_import[0].version >= 17


def test_other_networks_and_networks_on_a_gpu_are_not_exported(tmp_path: Path, run: Command) -> None:
    with refused("model", "PhotoNet"):
        export(tiny_denoiser(), tmp_path / "m.onnx")
    photonet.write(tmp_path / "model", SMALL, dict(random_network().named_parameters()))
    denoiser = models.load(tmp_path / "model")
    assert isinstance(denoiser, photonet.PhotoDenoiser)
    with refused("model", "cuda", remedy="cpu"):
        export(replace(denoiser, device=torch.device("cuda")), tmp_path / "m.onnx")
    code, _, err = run("export", tmp_path, "-o", tmp_path / "m.txt")
    assert (code, err) == (1, printed("output", "must end in .onnx, got m.txt") + "\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]
