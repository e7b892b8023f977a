"""Latent models of every kind: predictions, conditions, the VAE, identities and refusals, on tiny pipelines."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
import transformers
from helpers.latent import CROSS, SCHEDULERS, kind_of, save
from helpers.networks import ROUNDING
from helpers.published import EXPECTED, MODELS
from helpers.refusals import refused
from safetensors.torch import load_file, save_file

from dipp import models
from dipp.core.geometry import Geometry
from dipp.core.latents import REACH
from dipp.errors import DippError
from dipp.models import conditioning, hub, latent
from dipp.models.components import Pipeline
from dipp.models.conditioning import packed, unpacked
from dipp.models.diffusion import NoiseSchedule
from dipp.models.ladder import Ladder
from dipp.models.latent import LatentDenoiser
from dipp.models.unet import renamed

pytestmark = pytest.mark.usefixtures("one_thread")
EVERY = pytest.mark.parametrize("name", SCHEDULERS)
PIPELINES: dict[str, Any] = {
    "sd1": diffusers.StableDiffusionPipeline,
    "xl": diffusers.StableDiffusionXLPipeline,
    "flux": diffusers.FluxPipeline,
}
PIXELS = np.random.default_rng(1).integers(0, 256, (2, 13, 11, 3), np.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("latent")
    return {name: save(place / name, name) for name in SCHEDULERS}


@pytest.fixture
def spoiled(folders: dict[str, Path], tmp_path: Path) -> Path:
    """Return a copy of a pipeline that a test may damage."""
    return Path(shutil.copytree(folders["sd1"], tmp_path / "copy"))


def load(folder: Path, prompt: str = "", device: str = "cpu") -> LatentDenoiser:
    denoiser = models.load(folder, device, prompt)
    assert isinstance(denoiser, LatentDenoiser)
    return denoiser


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def part(folder: Path, library: Any, name: str, kind: str) -> Any:
    return getattr(library, kind).from_pretrained(folder / name)


def network_of_diffusers(folder: Path, name: str, prompt: str, z: torch.Tensor) -> Callable[[Any], torch.Tensor]:
    """Return a function from a timestep to the network's output for latents z, as diffusers' pipeline computes it."""
    kind = kind_of(name)
    if kind == "plain":
        plain = part(folder, diffusers, "unet", "UNet2DModel")
        return lambda t: plain(z, t).sample
    texts = {"text_encoder": part(folder, transformers, "text_encoder", "CLIPTextModel")}
    texts["tokenizer"] = part(folder, transformers, "tokenizer", "CLIPTokenizer")
    unet: Any = None
    if kind == "sd1":
        unet = part(folder, diffusers, "unet", "UNet2DConditionModel")
        pipe = PIPELINES[kind](
            **texts, vae=None, unet=unet, scheduler=None, safety_checker=None, feature_extractor=None
        )
        states, _ = pipe.encode_prompt(prompt, "cpu", 1, False)
        return lambda t: unet(z, t, states.expand(len(z), -1, -1)).sample
    second, tokens = {
        "xl": ("CLIPTextModelWithProjection", "CLIPTokenizer"),
        "flux": ("T5EncoderModel", "T5Tokenizer"),
    }[kind]
    texts["text_encoder_2"] = part(folder, transformers, "text_encoder_2", second)
    texts["tokenizer_2"] = part(folder, transformers, "tokenizer_2", tokens)
    if kind == "xl":
        unet = part(folder, diffusers, "unet", "UNet2DConditionModel")
        pipe = PIPELINES[kind](**texts, vae=None, unet=unet, scheduler=None, add_watermarker=False)
        states, zeros, pooled, no_pool = pipe.encode_prompt(prompt, device="cpu")
        if not prompt:  # what this pipeline calls the empty prompt
            states, pooled = zeros, no_pool
        size = (2 * z.shape[2], 2 * z.shape[3])
        ids = pipe._get_add_time_ids(size, (0, 0), size, torch.float32, 8).expand(len(z), -1)
        added = {"text_embeds": pooled.expand(len(z), -1), "time_ids": ids}
        return lambda t: unet(z, t, states.expand(len(z), -1, -1), added_cond_kwargs=added).sample
    network = part(folder, diffusers, "transformer", "FluxTransformer2DModel")
    pipe = PIPELINES[kind](**texts, vae=None, transformer=None, scheduler=None)
    states, pooled, text_ids = pipe.encode_prompt(prompt, None, device="cpu")
    height, width = z.shape[2:]
    patches = pipe._pack_latents(z, len(z), z.shape[1], height, width)
    places = pipe._prepare_latent_image_ids(len(z), height // 2, width // 2, "cpu", torch.float32)
    rows = {"pooled_projections": pooled.expand(len(z), -1), "encoder_hidden_states": states.expand(len(z), -1, -1)}

    def asked(t: Any) -> torch.Tensor:
        times = torch.full((len(z),), float(t) / 1000)
        told = {"timestep": times, "guidance": torch.zeros(len(z)), "txt_ids": text_ids, "img_ids": places, **rows}
        found = network(hidden_states=patches, **told).sample
        unpacked: torch.Tensor = pipe._unpack_latents(found, 2 * height, 2 * width, 2)
        return unpacked

    return asked


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("prompt", ["", "a cat"])
def test_predictions_are_those_of_diffusers_at_all_timesteps(folders: dict[str, Path], name: str, prompt: str) -> None:
    """Predictions equal `pred_original_sample` or, for flows, the scheduler's step to no noise."""
    if name == "plain" and prompt:
        pytest.skip("it takes no prompt")
    denoiser, scheduler = load(folders[name], prompt), part(folders[name], diffusers, "scheduler", SCHEDULERS[name][0])
    z = torch.randn(2, denoiser.channels, 8, 6, generator=torch.Generator().manual_seed(0))
    network, inside = network_of_diffusers(folders[name], name, prompt, z), 0
    assert len(denoiser.schedule) == 40 - (name == "zero" or name.startswith("flux"))
    for t in range(len(denoiser.schedule)):
        with torch.no_grad():
            if name.startswith("flux"):
                level = (t + 1) / 40
                scheduler.set_timesteps(sigmas=[level], mu=0.0) if "dynamic" in name else scheduler.set_timesteps(
                    sigmas=[level]
                )
                time = scheduler.timesteps[0]
                expected = scheduler.step(network(time), time, z).prev_sample
            else:
                scheduler.set_timesteps(40)
                expected = scheduler.step(network(t), t, z).pred_original_sample
        found = REACH * denoiser.x0(z / denoiser.ladder.scale(t), t)
        torch.testing.assert_close(found, expected.clamp(-REACH, REACH), rtol=1e-4, atol=20 * ROUNDING)
        inside += int((expected.abs() < REACH).sum())
    assert inside > z.numel()  # not all of it is clamped


@EVERY
def test_the_schedule_of_the_signal_is_that_of_the_latents(folders: dict[str, Path], name: str) -> None:
    """With z_t = c_t·x_t and u = z/R, SNRs are R² times as large, and the first state is noise."""
    denoiser = load(folders[name])
    ladder, schedule = denoiser.ladder, denoiser.schedule
    z, noise = 1.7, -0.3
    for t in range(len(schedule)):
        state = ladder.gammas[t] * z + ladder.sigmas[t] * noise
        assert ladder.scale(t) * schedule.noised(z / REACH, noise, t) == pytest.approx(state, rel=1e-9)  # type: ignore[type-var]
    assert schedule.first * ladder.scale(len(schedule) - 1) == pytest.approx(1)
    assert models.schedule(folders[name]).alphas_cumprod.tolist() == schedule.alphas_cumprod.tolist()
    assert models.channels(folders[name]) == 3


@pytest.mark.parametrize("name", MODELS)
def test_published_configs_are_supported(name: str) -> None:
    """Published configs give networks with the right numbers of parameters, latents and noise levels."""
    config, vae, scheduler = MODELS[name]
    told, ladder = conditioning.of(name, config), Ladder.from_config(scheduler)
    shape = latent._latents(name, vae, config, told)
    autoencoder: Any = diffusers.AutoencoderKL
    with torch.device("meta"):
        made = (getattr(diffusers, config["_class_name"]).from_config(config), autoencoder.from_config(vae))
    counts = (sum(parameter.numel() for parameter in network.parameters()) for network in made)
    side, same = latent._size(name, config, vae, shape)
    assert side == same
    found = (*counts, len(ladder.schedule()), (shape.factor, shape.channels, shape.patch), side)
    assert found == EXPECTED[name]


def test_old_names_of_attention_weights_of_a_vae_are_replaced() -> None:
    autoencoder: Any = diffusers.AutoencoderKL
    with torch.device("meta"):
        today = autoencoder.from_config(MODELS["Stable Diffusion 1.5"][1]).state_dict()
    names = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    old = {re.sub("|".join(names), lambda part: names[part[0]], key): tensor for key, tensor in today.items()}
    assert len(old.keys() - today.keys()) == 16
    assert renamed(old).keys() == today.keys()


def test_a_rescaled_schedule_leaves_out_the_timestep_without_signal() -> None:
    config = {**SCHEDULERS["zero"][1]}
    scheduler: Any = diffusers.DDIMScheduler
    theirs = scheduler(**config).alphas_cumprod.double().numpy()
    assert theirs[-1] == 0
    np.testing.assert_allclose(NoiseSchedule.from_config(config).alphas_cumprod, theirs[:-1], rtol=1e-4)


@EVERY
def test_latents_are_the_mode_of_the_posterior(folders: dict[str, Path], name: str) -> None:
    denoiser = load(folders[name])
    vae = part(folders[name], diffusers, "vae", "AutoencoderKL")
    across = denoiser.latents.factor * denoiser.latents.patch
    bottom, right = -13 % across, -11 % across
    padded = np.pad(PIXELS, ((0, 0), (0, bottom), (0, right), (0, 0)), mode="edge")
    x = torch.from_numpy(padded).permute(0, 3, 1, 2).float() / 127.5 - 1
    with torch.no_grad():
        z = (vae.encode(x).latent_dist.mode() - (vae.config.shift_factor or 0)) * vae.config.scaling_factor
    coded = denoiser.coded(PIXELS)
    assert coded.dtype == np.uint8
    assert coded.shape[1:] == denoiser.latents.geometry(Geometry(13, 11, 3)).shape
    np.testing.assert_array_equal(coded, denoiser.coded(PIXELS))
    signal = torch.from_numpy(coded).permute(0, 3, 1, 2).float() / 127.5 - 1
    assert (REACH * signal - z).abs().max() <= REACH / 255 + 1e-4
    with torch.no_grad():
        expected = vae.decode(REACH * signal / vae.config.scaling_factor + (vae.config.shift_factor or 0)).sample
    found = denoiser.picture(signal, Geometry(13, 11, 3))
    torch.testing.assert_close(found, expected[:, :, :13, :11], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf, 1e30])
def test_latents_that_are_not_finite_end_no_encoding(folders: dict[str, Path], bad: float) -> None:
    """Latents that are not finite count as 0, so no picture can end an encoding."""
    denoiser = load(folders["plain"])
    with torch.no_grad():
        denoiser.vae.quant_conv.bias.fill_(bad)
    coded = denoiser.coded(PIXELS)
    assert set(np.unique(coded)) == ({255} if bad == 1e30 else {128})


def test_unpacking_is_the_inverse_of_packing() -> None:
    z = torch.randn(2, 4, 6, 10)
    assert torch.equal(unpacked(packed(z), 3, 5), z)


@pytest.mark.parametrize("name", ["xl", "flux"])
def test_the_identity_is_of_every_component_but_the_prompt(folders: dict[str, Path], name: str, tmp_path: Path) -> None:
    own = load(folders[name]).identity
    assert load(folders[name], "a cat").identity == own
    network = "transformer" if name == "flux" else "unet"
    changed = set()
    texts = ("text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2")
    for place in (network, "vae", *texts, "scheduler"):
        folder = Path(shutil.copytree(folders[name], tmp_path / place))
        if place == "scheduler":
            edit(folder / place / "scheduler_config.json", num_train_timesteps=41)
        elif place.startswith("tokenizer"):
            edit(folder / place / "tokenizer_config.json", model_max_length=11)
        else:
            (weights,) = (folder / place).glob("*.safetensors")
            tensors = load_file(weights)
            tensors[max(tensors)] += 1
            save_file(tensors, weights)
        changed.add(Pipeline.open(str(folder)).identity({}))
    assert len(changed | {own}) == 8
    (folders[name] / "feature_extractor").mkdir(exist_ok=True)  # which no prediction depends on
    assert load(folders[name]).identity == own


@pytest.mark.parametrize("name", ["xl", "flux"])
def test_changing_any_byte_of_a_pipeline_changes_the_identity(
    folders: dict[str, Path], name: str, tmp_path: Path
) -> None:
    """Changing the last byte of any file, or the last letter or digit of JSON, changes the identity."""
    folder = Path(shutil.copytree(folders[name], tmp_path / "copy"))
    own, seen = Pipeline.open(str(folder)).identity({}), 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        before = path.read_bytes()
        place = len(before) - 1
        while path.suffix == ".json" and not before[place : place + 1].isalnum():
            place -= 1
        path.write_bytes(before[:place] + (b"1" if before[place] == ord("2") else b"2") + before[place + 1 :])
        with contextlib.suppress(DippError):  # it is no JSON, or no component any more
            assert Pipeline.open(str(folder)).identity({}) != own, path
        path.write_bytes(before)
        seen += 1
    assert seen >= 14
    assert Pipeline.open(str(folder)).identity({}) == own


def as_published(folder: Path) -> None:
    """Write the vocabulary as two files, as in the repository of Stable Diffusion 1.5."""
    tokens = json.loads((folder / "tokenizer/tokenizer.json").read_text())["model"]
    (folder / "tokenizer/vocab.json").write_text(json.dumps(tokens["vocab"]))
    (folder / "tokenizer/merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer/tokenizer.json").unlink()


UNSEEN: dict[str, Callable[[Path], object]] = {
    "defaults of the VAE": lambda f: edit(f / "vae/config.json", _use_default_values=["scaling_factor"]),
    "defaults of the network": lambda f: edit(f / "unet/config.json", _use_default_values=["norm_num_groups"]),
    "attention that is fetched": lambda f: edit(f / "text_encoder/config.json", _attn_implementation="owner/kernels"),
    "other weights": lambda f: (f / "text_encoder/pytorch_model.bin").write_bytes(b"x"),
}


@pytest.mark.parametrize("case", UNSEEN)
def test_files_that_the_identity_does_not_cover_change_nothing(spoiled: Path, case: str) -> None:
    state, before = torch.randn(1, 4, 8, 8), load(spoiled, "cat")
    UNSEEN[case](spoiled)
    after = load(spoiled, "cat")
    assert after.identity == before.identity
    assert torch.equal(after.x0(state, 3), before.x0(state, 3))
    size = Geometry(16, 16, 3)
    assert torch.equal(after.picture(state, size), before.picture(state, size))


def test_a_vocabulary_in_two_files_is_read_from_these_alone(spoiled: Path) -> None:
    state = torch.randn(1, 4, 8, 8)
    before = load(spoiled, "cat").x0(state, 3)
    as_published(spoiled)
    published = load(spoiled, "cat")
    torch.testing.assert_close(published.x0(state, 3), before, rtol=0, atol=ROUNDING)
    (spoiled / "tokenizer/tokenizer.model").write_text('{"<|startoftext|>": 0, "<|endoftext|>": 1, "x": 2}')
    other = load(spoiled, "cat")
    assert other.identity == published.identity
    assert torch.equal(other.x0(state, 3), published.x0(state, 3))


def test_weights_in_several_files_are_the_same_model(spoiled: Path) -> None:
    before = load(spoiled)
    weights = spoiled / "unet/diffusion_pytorch_model.safetensors"
    tensors = load_file(weights)
    names = [f"diffusion_pytorch_model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    parts = [dict(list(tensors.items())[:9]), dict(list(tensors.items())[9:])]
    for file, some in zip(names, parts, strict=True):
        save_file(some, weights.with_name(file))
    weights.unlink()
    listed = {key: file for file, some in zip(names, parts, strict=True) for key in some}
    index = spoiled / "unet/diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": listed}))
    after, state = load(spoiled), torch.randn(1, 4, 8, 8)
    assert after.identity == before.identity
    torch.testing.assert_close(after.x0(state, 3), before.x0(state, 3), rtol=0, atol=ROUNDING)
    index.write_text(json.dumps({"weight_map": {**listed, "other": "../../elsewhere.safetensors"}}))
    with refused("model", "damaged"):
        load(spoiled)


def test_a_single_file_of_weights_is_preferred_to_several(spoiled: Path) -> None:
    """The identity covers the single file, because transformers loads text encoders from it."""
    weights = spoiled / "text_encoder/model.safetensors"
    part, tensors = "model-00001-of-00001.safetensors", load_file(weights)
    save_file(tensors, weights.with_name(part), {"format": "pt"})
    listed = json.dumps({"weight_map": dict.fromkeys(tensors, part)})
    weights.with_name("model.safetensors.index.json").write_text(listed)
    before = load(spoiled)
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, weights, {"format": "pt"})
    assert load(spoiled).identity != before.identity


def lack(place: str) -> Callable[[Path], object]:
    return lambda folder: shutil.rmtree(folder / place)


def drop(place: str) -> Callable[[Path], object]:
    return lambda folder: (folder / place).unlink()


def only_pickles(folder: Path) -> None:
    weights = folder / "unet/diffusion_pytorch_model.safetensors"
    weights.with_suffix(".bin").write_bytes(pickle.dumps({}))
    weights.unlink()


def half_a_text_encoder(folder: Path) -> None:
    weights = folder / "text_encoder/model.safetensors"
    tensors = load_file(weights)
    tensors.pop(max(tensors))
    save_file(tensors, weights, {"format": "pt"})


def pickled_text_encoder(folder: Path) -> None:
    weights = folder / "text_encoder/model.safetensors"
    torch.save(load_file(weights), folder / "text_encoder/pytorch_model.bin")
    weights.unlink()


UNET, VAE, SCHEDULER = "unet/config.json", "vae/config.json", "scheduler/scheduler_config.json"
TEXT, TOKENS = "text_encoder/config.json", "tokenizer/tokenizer_config.json"


def a_side_of_text(folder: Path) -> None:
    edit(folder / UNET, sample_size=None)
    edit(folder / VAE, sample_size="16")


REFUSED: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "no VAE": (lack("vae"), ["vae"]),
    "no tokenizer": (lack("tokenizer"), ["tokenizer"]),
    "no scheduler": (lack("scheduler"), ["scheduler"]),
    "no index": (drop("model_index.json"), ["model_index.json"]),
    "no weights": (drop("vae/diffusion_pytorch_model.safetensors"), ["safetensors"]),
    "pickles": (only_pickles, ["diffusion_pytorch_model.bin"]),
    "another component": (lambda f: edit(f / "model_index.json", prior=["diffusers", "Prior"]), ["prior"]),
    "inpainting": (lambda f: edit(f / UNET, in_channels=9), ["9", "4"]),
    "another network": (lambda f: edit(f / UNET, _class_name="PhotoNet"), ["PhotoNet"]),
    "classes": (lambda f: edit(f / UNET, num_class_embeds=5), []),
    "images": (lambda f: edit(f / UNET, encoder_hid_dim_type="image_proj"), ["encoder_hid_dim_type"]),
    "another embedding": (lambda f: edit(f / UNET, addition_embed_type="image"), ["addition_embed_type"]),
    "another VAE": (lambda f: edit(f / VAE, _class_name="VQModel"), ["VQModel"]),
    "a VAE of grey": (lambda f: edit(f / VAE, in_channels=1), ["RGB"]),
    "means": (lambda f: edit(f / VAE, latents_mean=[0.0] * 4), []),
    "no scale": (lambda f: edit(f / VAE, scaling_factor=None), ["scaling_factor"]),
    "a scale of 0": (lambda f: edit(f / VAE, scaling_factor=0), ["scaling_factor"]),
    "no shift": (lambda f: edit(f / VAE, shift_factor="x"), ["shift_factor"]),
    "three sides": (lambda f: edit(f / UNET, sample_size=[8, 8, 8]), ["[8, 8, 8]"]),
    "a negative side": (lambda f: edit(f / UNET, sample_size=-1), ["-1"]),
    "a side that is text": (a_side_of_text, ["16"]),
    "weights of another network": (lambda f: edit(f / UNET, layers_per_block=2), []),
    "half a text encoder": (half_a_text_encoder, ["text_encoder"]),
    "a pickled text encoder": (pickled_text_encoder, ["pytorch_model.bin"]),
    "an adapter": (
        lambda f: (f / "text_encoder/adapter_config.json").write_text("{}"),
        ["text_encoder"],
    ),
    "another config": (lambda f: edit(f / TEXT, configuration_files=["config.4.0.0.json"]), []),
    "another vocabulary": (lambda f: edit(f / TOKENS, fast_tokenizer_files=["tokenizer.4.json"]), []),
    "quantised": (lambda f: edit(f / TEXT, quantization_config={"quant_method": "gptq", "bits": 4}), ["text_encoder"]),
    "no width": (lambda f: edit(f / TEXT, hidden_size=9), ["text_encoder"]),
    "a length of text": (lambda f: edit(f / TOKENS, model_max_length="x"), ["tokenizer"]),
    "no vocabulary": (drop("tokenizer/tokenizer.json"), ["tokenizer"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_latent_models_are_refused_in_one_line(spoiled: Path, case: str) -> None:
    spoil, tokens = REFUSED[case]
    spoil(spoiled)
    with refused("model", *tokens):
        load(spoiled).x0(torch.zeros(1, 4, 8, 8), 3)


def test_components_that_do_not_fit_are_refused_before_a_picture_is_read(spoiled: Path) -> None:
    shutil.rmtree(spoiled / "unet")
    other: Any = diffusers.UNet2DConditionModel
    other(**CROSS, cross_attention_dim=12).save_pretrained(spoiled / "unet")
    with refused("model", "mat1"):
        load(spoiled).prepare()


@pytest.mark.parametrize(("name", "value"), [("beta_schedule", None), ("prediction_type", "flow_prediction")])
def test_an_unknown_scheduler_is_refused(spoiled: Path, name: str, value: str | None) -> None:
    edit(spoiled / SCHEDULER, **{name: value})
    with refused(name, str(value)):
        load(spoiled)


def test_prompts_change_predictions_and_invalid_ones_are_refused(folders: dict[str, Path]) -> None:
    empty = load(folders["sd1"])
    assert empty.prompted("") is empty
    state = torch.randn(1, 4, 8, 8)
    assert not torch.equal(empty.x0(state, 3), empty.prompted("a dog").x0(state, 3))
    with refused("prompt", "4096"):
        empty.prompted("x" * 5000)
    with refused("prompt", "encoder"):
        load(folders["plain"], "a cat")
    with refused("prompt", "takes"):
        models.load("embedded", prompt="a cat")


@pytest.mark.parametrize(("name", "read", "cut"), [("sd1", 2, 40), ("xl", 2, 40), ("flux", 40, 600)])
def test_a_prompt_that_would_be_cut_is_refused(folders: dict[str, Path], name: str, read: int, cut: int) -> None:
    """CLIP's encoder of FLUX reads the beginning alone, by design; T5 reads the whole prompt."""
    load(folders[name], " ".join(["cat"] * read)).prepare()
    with refused("prompt", "tokens"):
        load(folders[name], " ".join(["cat"] * cut)).prepare()


def test_code_of_a_pipeline_is_never_run(spoiled: Path) -> None:
    """Classes and modules that the files of a pipeline name are not imported."""
    (spoiled / "tokenizer/evil.py").write_text("raise SystemExit(1)")
    edit(spoiled / "tokenizer/tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", None]})
    edit(spoiled / "text_encoder/config.json", auto_map={"AutoModel": "evil.Evil"})
    edit(spoiled / "model_index.json", text_encoder=["evil", "Evil"])
    load(spoiled).x0(torch.zeros(1, 4, 8, 8), 3)


def test_a_model_that_cannot_be_fetched_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def fails(*_: Any, **__: Any) -> str:
        raise ConnectionError("nobody\nanswers")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fails)
    with refused("model", "fetched"):
        models.load("stable-diffusion-v1-5/stable-diffusion-v1-5")
    assert hub.HUB_ID.fullmatch("black-forest-labs/FLUX.1-dev")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"num_train_timesteps": 2}, "num_train_timesteps"),
        ({"shift": 0}, "shift"),
        ({"invert_sigmas": True}, "invert_sigmas"),
    ],
)
def test_bad_flows_are_refused(config: dict[str, Any], said: str) -> None:
    with refused(said):
        Ladder.from_config({"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 40, **config})


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # PyTorch, of FLUX in bf16
@pytest.mark.gpu
@EVERY
def test_latent_models_compute_the_same_on_a_gpu(folders: dict[str, Path], name: str) -> None:
    here, there = load(folders[name]), load(folders[name], device="cuda")
    assert here.identity == there.identity
    state = torch.randn(2, here.channels, 8, 6)
    for t in (0, 20, len(here.schedule) - 1):
        torch.testing.assert_close(there.x0(state, t).cpu(), here.x0(state, t), rtol=0, atol=1e-3)
    assert np.abs(here.coded(PIXELS).astype(int) - there.coded(PIXELS)).max() <= 1
    size = Geometry(13, 11, 3)
    pictures = (one.picture(one.x0(state, 5), size).cpu() for one in (here, there))
    torch.testing.assert_close(*pictures, rtol=0, atol=0.1)  # bf16
