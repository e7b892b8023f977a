"""Denoisers: loading, identity, refusals and numbers, on a tiny network that the tests make; nothing is fetched."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from diffusers import DDPMScheduler, UNet2DModel
from helpers.networks import ROUNDING
from helpers.refusals import refused
from safetensors.torch import load_file, save_file

from dipp import models
from dipp.errors import DippError
from dipp.models import diffusion, embedded, hub, samplers, unet
from dipp.models.unet import UNetDenoiser
from experiments.cifar10.compiled import compiled

WEIGHTS = "unet/diffusion_pytorch_model.safetensors"
NETWORK: dict[str, Any] = {
    "sample_size": 16,
    "block_out_channels": (8, 16),
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    "layers_per_block": 1,
    "attention_head_dim": 4,
    "norm_num_groups": 4,
}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a denoiser that diffusers wrote."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    network, scheduler = made_by_diffusers(UNet2DModel, **NETWORK), made_by_diffusers(DDPMScheduler)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    network.save_pretrained(folder / "unet", safe_serialization=True)
    scheduler.save_pretrained(folder / "scheduler")
    index = {"unet": ["diffusers", "UNet2DModel"], "scheduler": ["diffusers", "DDPMScheduler"]}
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "DDPMPipeline", **index}))
    return folder


@pytest.fixture(scope="module")
def tiny(original: Path) -> UNetDenoiser:
    return load(original)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "copy"))


def load(folder: Path, device: str = "cpu") -> UNetDenoiser:
    denoiser = models.load(folder, device)
    assert isinstance(denoiser, UNetDenoiser)
    return denoiser


def made_by_diffusers(kind: Any, **arguments: Any) -> Any:
    return kind(**arguments)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def noisy(count: int, size: int = 16) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(count))


def test_a_loaded_denoiser_has_its_attributes(tiny: UNetDenoiser) -> None:
    assert (tiny.channels, tiny.sample_size, tiny.multiple) == (3, (16, 16), 2)
    assert len(tiny.schedule) == 1000
    assert tiny.schedule.prediction == "epsilon"
    assert len(bytes.fromhex(tiny.identity)) == 32
    assert not any(parameter.requires_grad for parameter in tiny.network.parameters())


@pytest.mark.parametrize("prediction", diffusion.PREDICTIONS)
@pytest.mark.parametrize("t", [0, 250, 700])
def test_prediction_is_that_of_diffusers(folder: Path, prediction: str, t: int) -> None:
    edit(folder / "scheduler/scheduler_config.json", prediction_type=prediction)
    kinds: tuple[Any, Any] = (UNet2DModel, DDPMScheduler)
    network = kinds[0].from_pretrained(folder / "unet", low_cpu_mem_usage=False)
    scheduler = kinds[1].from_pretrained(folder / "scheduler")
    x_t = noisy(3)
    with torch.no_grad():
        expected = scheduler.step(network(x_t, t).sample, t, x_t).pred_original_sample
    x_hat = models.load(folder).x0(x_t, t)
    assert x_hat.dtype == torch.float32
    assert x_hat.abs().max() <= 1
    assert x_hat.abs().min() < 0.9  # not all of it is clamped
    torch.testing.assert_close(x_hat, expected, rtol=0, atol=ROUNDING)


def test_images_do_not_depend_on_their_batch(tiny: UNetDenoiser, monkeypatch: pytest.MonkeyPatch) -> None:
    x_t = noisy(7)
    whole = tiny.x0(x_t, 300)
    sizes: list[int] = []

    def counted(network: Any, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x))
        assert x.is_contiguous(memory_format=torch.channels_last)
        return output(network, x, number)

    output = UNetDenoiser._output
    monkeypatch.setattr(UNetDenoiser, "_output", staticmethod(counted))
    monkeypatch.setitem(unet.PIXELS_PER_CALL, "cpu", 3 * 16 * 16)
    torch.testing.assert_close(tiny.x0(x_t, 300), whole, rtol=0, atol=ROUNDING)
    assert sizes == [3, 3, 1]
    monkeypatch.setitem(unet.PIXELS_PER_CALL, "cpu", 1)
    torch.testing.assert_close(tiny.x0(x_t.flip(0), 300).flip(0), whole, rtol=0, atol=ROUNDING)
    assert sizes[3:] == [1] * 7


def test_other_sizes_and_dtypes_are_predicted(tiny: UNetDenoiser) -> None:
    assert tiny.x0(noisy(2, 24), 10).shape == (2, 3, 24, 24)
    assert tiny.x0(noisy(1)[..., :7], 10).shape == (1, 3, 16, 7)
    torch.testing.assert_close(tiny.x0(noisy(1).double(), 10), tiny.x0(noisy(1), 10))


@pytest.mark.parametrize("shape", [(3, 16, 16), (0, 3, 16, 16), (1, 1, 16, 16), (1, 3, 16, 0)])
def test_bad_shapes_are_refused(tiny: UNetDenoiser, shape: tuple[int, ...]) -> None:
    with refused("x_t"):
        tiny.x0(torch.zeros(shape), 10)


def test_bad_timestep_is_refused(tiny: UNetDenoiser) -> None:
    with refused("t"):
        tiny.x0(noisy(1), 1000)


def test_result_is_an_ordinary_tensor_and_the_program_stays_as_it_was(original: Path) -> None:
    before = torch.get_rng_state()
    torch.set_float32_matmul_precision("medium")
    try:
        x_t = noisy(2)
        kept = x_t.clone()
        x_hat = models.load(original).x0(x_t, 5)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.backends.cudnn.allow_tf32
    assert torch.equal(x_t, kept)
    assert not x_hat.is_inference()
    assert x_hat.is_contiguous()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # as the compiler is imported
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")  # diffusers' own
def test_the_compiled_sampler_computes_x0(tiny: UNetDenoiser, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler is traced as on CUDA, and the trace runs by plain kernels, which need no C++ compiler."""
    traced = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        traced.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    x_t = torch.randn(2, 3, 16, 16)
    predict = compiled(tiny)
    for t in (500, 3):
        assert torch.allclose(predict(x_t, t), tiny.x0(x_t, t, fast=True), atol=1e-5)
    assert len(traced) == 1


def test_both_samplers_take_a_denoiser(tiny: UNetDenoiser) -> None:
    x_t = noisy(2)
    noise = iter(noisy(30)[:, None].expand(-1, 2, -1, -1, -1))
    for x in (
        samplers.fast(tiny.x0, tiny.schedule, x_t, 400, 20),
        samplers.ancestral(tiny.x0, tiny.schedule, x_t, 20, lambda _: next(noise)),
    ):
        assert x.shape == x_t.shape
        assert x.abs().max() <= 1


# Identity.


def part(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def identity_from_the_files(folder: Path) -> str:
    """Return the identity by the documented layout, from the raw bytes of the safetensors file."""
    stream = part(b"dipp/model/1")
    for path in ("unet/config.json", "scheduler/scheduler_config.json"):
        config = json.loads((folder / path).read_text())
        public = {key: config[key] for key in sorted(config) if key[0] != "_"}
        stream += part(json.dumps(public).replace(": ", ":").replace(", ", ",").encode())
    raw = (folder / WEIGHTS).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    for name in sorted(set(header) - {"__metadata__"}):
        start, end = header[name]["data_offsets"]
        stream += part(name.encode()) + part({"F32": b"float32", "F16": b"float16"}[header[name]["dtype"]])
        stream += part(",".join(str(n) for n in header[name]["shape"]).encode())
        stream += part(raw[8 + length + start : 8 + length + end])
    return hashlib.sha256(stream).hexdigest()


def test_identity_is_the_documented_hash(original: Path, tiny: UNetDenoiser) -> None:
    assert tiny.identity == identity_from_the_files(original)


def test_identity_ignores_what_changes_nothing(folder: Path, tiny: UNetDenoiser) -> None:
    for name in ("unet/config.json", "scheduler/scheduler_config.json"):
        config = json.loads((folder / name).read_text())
        shuffled = dict(reversed(config.items())) | {"_diffusers_version": "0.0.1", "_name_or_path": "elsewhere"}
        (folder / name).write_text(json.dumps(shuffled, indent=7))
    tensors = load_file(folder / WEIGHTS)
    save_file(dict(reversed(tensors.items())), folder / WEIGHTS, metadata={"note": "another header"})
    assert models.load(folder).identity == tiny.identity


def flip_a_bit(folder: Path) -> None:
    raw = bytearray((folder / WEIGHTS).read_bytes())
    raw[-1] ^= 1
    (folder / WEIGHTS).write_bytes(raw)


CHANGES: dict[str, Callable[[Path], None]] = {
    "one bit of a weight": flip_a_bit,
    "network config": lambda folder: edit(folder / "unet/config.json", norm_eps=1e-6),
    "scheduler config": lambda folder: edit(folder / "scheduler/scheduler_config.json", beta_end=0.03),
    "prediction": lambda folder: edit(folder / "scheduler/scheduler_config.json", prediction_type="sample"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_identity_notices_every_change(folder: Path, tiny: UNetDenoiser, change: str) -> None:
    CHANGES[change](folder)
    changed = models.load(folder)
    assert changed.identity != tiny.identity
    assert changed.identity == identity_from_the_files(folder)
    with pytest.raises(DippError) as error:
        changed.require_identity(tiny.identity)
    assert tiny.identity in str(error.value)
    assert changed.identity in str(error.value)
    changed.require_identity(changed.identity)


def test_half_precision_weights_are_another_model_that_runs_in_fp32(folder: Path, tiny: UNetDenoiser) -> None:
    save_file({name: t.half() for name, t in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)
    half = load(folder)
    assert half.identity != tiny.identity
    assert half.identity == identity_from_the_files(folder)
    assert {parameter.dtype for parameter in half.network.parameters()} == {torch.float32}
    x_hat = half.x0(noisy(2), 200)
    assert x_hat.dtype == torch.float32
    torch.testing.assert_close(x_hat, tiny.x0(noisy(2), 200), rtol=0, atol=0.02)


# Layouts, the hub, refusals.


def flatten(folder: Path) -> None:
    """Change a folder to the oldest layout of diffusers: all files side by side, old names of attention weights."""
    new = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    tensors = load_file(folder / WEIGHTS)
    for now, then in new.items():
        tensors = {name.replace(f".{now}.", f".{then}."): tensor for name, tensor in tensors.items()}
    assert any(".query." in name for name in tensors)
    save_file(tensors, folder / Path(WEIGHTS).name)
    (folder / "unet/config.json").rename(folder / "config.json")
    (folder / "scheduler/scheduler_config.json").rename(folder / "scheduler_config.json")
    shutil.rmtree(folder / "unet")
    shutil.rmtree(folder / "scheduler")


def test_an_old_flat_folder_is_read(folder: Path, tiny: UNetDenoiser) -> None:
    flatten(folder)
    torch.testing.assert_close(models.load(folder).x0(noisy(1), 100), tiny.x0(noisy(1), 100))


def pickle_only(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "unet/diffusion_pytorch_model.bin")


def lose_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors.pop("conv_in.bias")
    save_file(tensors, folder / WEIGHTS)


def config(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "unet/config.json", **changes)


REFUSALS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "missing folder": (shutil.rmtree, []),
    "no network": (lambda folder: shutil.rmtree(folder / "unet"), ["unet/config.json"]),
    "no scheduler": (lambda folder: shutil.rmtree(folder / "scheduler"), ["scheduler/scheduler_config.json"]),
    "pickles": (pickle_only, ["diffusion_pytorch_model.bin"]),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), ["safetensors"]),
    "damaged weights": (lambda folder: (folder / WEIGHTS).write_bytes(b"PK" * 50), []),
    "a tensor too few": (lose_a_tensor, ["conv_in.bias"]),
    "another width": (config(block_out_channels=[8, 32]), []),
    "unknown block": (config(down_block_types=["DownBlock2D", "NoBlock"]), []),
    "broken JSON": (lambda folder: (folder / "unet/config.json").write_text("{"), ["JSON"]),
    "deep JSON": (lambda folder: (folder / "unet/config.json").write_text("[" * 100_000), ["JSON"]),
    "a list": (lambda folder: (folder / "scheduler/scheduler_config.json").write_text("[]"), ["JSON"]),
    "wrong class": (config(_class_name="UNet3DConditionModel"), ["UNet3DConditionModel"]),
    "no VAE": (config(_class_name="UNet2DConditionModel"), ["text_encoder, tokenizer, vae"]),
    "class labels": (config(num_class_embeds=10), []),
    "class embedding": (config(class_embed_type="timestep"), []),
    "noise levels": (config(time_embedding_type="fourier"), []),
    "learned variance": (config(out_channels=6), ["3", "6"]),
    "no size": (config(sample_size=None), ["sample_size"]),
    "latents": (lambda folder: edit(folder / "model_index.json", vqvae=["diffusers", "VQModel"]), ["vqvae"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_unsupported_models_are_refused_in_one_line(folder: Path, case: str) -> None:
    spoil, tokens = REFUSALS[case]
    spoil(folder)
    with refused("model", *tokens):
        models.load(folder)


def test_an_unknown_prediction_type_is_refused(folder: Path) -> None:
    edit(folder / "scheduler/scheduler_config.json", prediction_type="flow")
    with refused("prediction_type", "flow"):
        models.load(folder)


@pytest.mark.parametrize("device", ["tpu", "cuda:99", "cuda:x", ""])
def test_bad_devices_are_refused(original: Path, device: str) -> None:
    with refused("device"):
        models.load(original, device)


@pytest.fixture
def offline_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up an empty hub cache without a network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def test_the_denoiser_that_ships_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of that name in the working folder comes first, as for any other name."""
    monkeypatch.chdir(tmp_path)
    assert hub.fetch("embedded", ()) == embedded.FOLDER
    (tmp_path / "embedded").mkdir()
    assert hub.fetch("embedded", ()) == Path("embedded")


@pytest.mark.parametrize("flat", [False, True])
def test_hub_id_from_the_cache_without_a_network(
    offline_cache: Path, original: Path, tiny: UNetDenoiser, flat: bool
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = offline_cache / "models--someone--ddpm-tiny"
    snapshot = repository / "snapshots" / commit
    shutil.copytree(original, snapshot)
    if flat:
        flatten(snapshot)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(commit)
    torch.testing.assert_close(models.load("someone/ddpm-tiny").x0(noisy(1), 3), tiny.x0(noisy(1), 3))


@pytest.mark.usefixtures("offline_cache")
def test_hub_id_that_is_neither_cached_nor_reachable_is_refused() -> None:
    with refused("model", "someone/ddpm-tiny"):
        models.load("someone/ddpm-tiny")


@pytest.mark.parametrize("online", [True, False])
def test_nothing_but_json_and_safetensors_is_asked_of_the_hub(
    original: Path, tiny: UNetDenoiser, monkeypatch: pytest.MonkeyPatch, online: bool
) -> None:
    asked: list[tuple[str, tuple[str, ...], bool]] = []

    def snapshot_download(name: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        asked.append((name, tuple(allow_patterns), local_files_only))
        if not online and not local_files_only:
            raise RuntimeError("a transport's own kind of error")
        return str(original)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert models.load("someone/ddpm-tiny").identity == tiny.identity
    assert {name for name, _, _ in asked} == {"someone/ddpm-tiny"}
    assert {Path(file).suffix for _, files, _ in asked for file in files} == {".json", ".safetensors"}
    # Configs come first, so that a wrong repository is refused before its weights are fetched.
    assert all(file.endswith(".json") for file in asked[0][1])
    assert [cached for _, _, cached in asked] == ([False] * 3 if online else [False, True] * 3)


def test_module_imports_no_framework() -> None:
    code = "import sys, dipp.models; print({'torch', 'diffusers', 'huggingface_hub'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert result.stdout.strip() == "set()"


# CUDA.


@pytest.mark.gpu
def test_cuda_agrees_with_the_cpu_in_every_batch(original: Path, tiny: UNetDenoiser) -> None:
    on_gpu = models.load(original, "cuda")
    assert on_gpu.identity == tiny.identity
    for count in (1, 3, 8, 700):
        x_t = noisy(count)
        expected = tiny.x0(x_t, 300)
        for _ in range(2):  # captured, then replayed
            torch.testing.assert_close(on_gpu.x0(x_t, 300).cpu(), expected, rtol=0, atol=1e-4)
        torch.testing.assert_close(on_gpu.x0(x_t, 20).cpu(), tiny.x0(x_t, 20), rtol=0, atol=1e-4)
    alone = torch.cat([on_gpu.x0(x_t[i : i + 1], 300) for i in range(3)])
    torch.testing.assert_close(alone.cpu(), expected[:3], rtol=0, atol=1e-4)


@pytest.mark.gpu
def test_cuda_is_exact_whatever_the_program_has_allowed(original: Path, tiny: UNetDenoiser) -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        x_hat = models.load(original, "cuda").x0(noisy(8), 300)
    finally:
        torch.set_float32_matmul_precision("highest")
    torch.testing.assert_close(x_hat.cpu(), tiny.x0(noisy(8), 300), rtol=0, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # as the compiler is imported
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")  # diffusers' own
def test_cuda_sampler_is_the_fast_path(original: Path) -> None:
    on_gpu = load(original, "cuda")
    x_t, predict = noisy(4), compiled(on_gpu)
    assert (predict(x_t, 300) - on_gpu.x0(x_t, 300, fast=True)).abs().mean() < 0.02


@pytest.mark.gpu
def test_cuda_fast_is_close_and_leaves_the_exact_path_alone(original: Path, tiny: UNetDenoiser) -> None:
    on_gpu = models.load(original, "cuda")
    x_t = noisy(4)
    exact = on_gpu.x0(x_t, 300)
    quick = on_gpu.x0(x_t, 300, fast=True)
    assert quick.dtype == torch.float32
    assert 0 < (quick - exact).abs().mean() < 0.02
    assert torch.equal(on_gpu.x0(x_t, 300), exact)
    assert np.abs(exact.cpu().numpy() - tiny.x0(x_t, 300).numpy()).max() < 1e-4
