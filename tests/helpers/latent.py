"""Tiny latent models of each kind, with random weights and vocabularies of a few letters, written by diffusers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

BETAS: dict[str, Any] = {
    "num_train_timesteps": 40,
    "beta_start": 0.005,
    "beta_end": 0.2,
    "beta_schedule": "scaled_linear",
    "clip_sample": False,
    "set_alpha_to_one": False,
}
SCHEDULERS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("DDIMScheduler", {**BETAS, "prediction_type": "sample"}),
    "sd1": ("DDIMScheduler", BETAS),
    "sd2": ("DDIMScheduler", {**BETAS, "prediction_type": "v_prediction"}),
    "zero": ("DDIMScheduler", {**BETAS, "prediction_type": "v_prediction", "rescale_betas_zero_snr": True}),
    "xl": ("DDIMScheduler", BETAS),
    "flux": ("FlowMatchEulerDiscreteScheduler", {"num_train_timesteps": 40, "shift": 3.0}),
    "flux dynamic": (
        "FlowMatchEulerDiscreteScheduler",
        {"num_train_timesteps": 40, "use_dynamic_shifting": True},
    ),
}
"""Class and config of a scheduler of each kind."""
UNET: dict[str, Any] = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
}
CROSS: dict[str, Any] = {
    **UNET,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "attention_head_dim": 4,
}
TEXT: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 12,
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def kind_of(name: str) -> str:
    """Return the kind of networks that one of `SCHEDULERS` belongs to."""
    return {"sd2": "sd1", "zero": "sd1", "flux dynamic": "flux"}.get(name, name)


def save(folder: Path, name: str) -> Path:
    """Save a pipeline."""
    kind, parts = kind_of(name), dict[str, Any]()
    channels = 4
    if kind == "plain":
        blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
        parts["unet"] = _made(diffusers.UNet2DModel, **UNET, **blocks)
    elif kind == "sd1":
        parts["unet"] = _made(diffusers.UNet2DConditionModel, **CROSS, cross_attention_dim=8)
    elif kind == "xl":
        added = {"addition_embed_type": "text_time", "addition_time_embed_dim": 4}
        added |= {"projection_class_embeddings_input_dim": 4 * 6 + 8}
        parts["unet"] = _made(diffusers.UNet2DConditionModel, **CROSS, cross_attention_dim=16, **added)
    else:
        parts["transformer"] = _made(
            diffusers.FluxTransformer2DModel,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=8,
            pooled_projection_dim=8,
            guidance_embeds=True,
            axes_dims_rope=(2, 2, 4),
        )
    parts["vae"] = _made(
        diffusers.AutoencoderKL,
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=channels,
        norm_num_groups=4,
        sample_size=16,
        scaling_factor=0.7,
        shift_factor=0.1 if kind == "flux" else None,
    )
    if kind != "plain":
        parts["text_encoder"] = _made_text(transformers.CLIPTextModel, transformers.CLIPTextConfig(**TEXT))
        parts["tokenizer"] = _clip_tokenizer()
    if kind == "xl":
        config = transformers.CLIPTextConfig(**TEXT, projection_dim=8)
        parts["text_encoder_2"] = _made_text(transformers.CLIPTextModelWithProjection, config)
        parts["tokenizer_2"] = _clip_tokenizer()
    if kind == "flux":
        t5 = transformers.T5Config(
            vocab_size=60, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, feed_forward_proj="gated-gelu"
        )
        parts["text_encoder_2"] = _made_text(transformers.T5EncoderModel, t5)
        parts["tokenizer_2"] = _t5_tokenizer()
    scheduler, levels = SCHEDULERS[name]
    parts["scheduler"] = getattr(diffusers, scheduler)(**levels)
    index: dict[str, Any] = {"_class_name": "Pipeline", "force_zeros_for_empty_prompt": kind == "xl"}
    index |= {"safety_checker": [None, None], "feature_extractor": ["transformers", "CLIPImageProcessor"]}
    for part, made in parts.items():
        made.save_pretrained(folder / part)
        library = "transformers" if part.startswith(("text", "token")) else "diffusers"
        index[part] = [library, type(made).__name__]
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def _made(kind: Any, **config: Any) -> Any:
    return _random(kind(**config))


def _made_text(kind: Any, config: Any) -> Any:
    return _random(kind(config))


def _random(network: Any) -> Any:
    """Fill a network with random weights, the same every time."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            scale = 0.3 if parameter.ndim > 1 else 0.1
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
            if parameter.ndim == 1:
                parameter += 0.5
    return network.eval()


def _clip_tokenizer() -> Any:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    tokens = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return transformers.CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=12)


def _t5_tokenizer() -> Any:
    letters = [(chr(code), -2.0) for code in range(ord("a"), ord("z") + 1)]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -1.0), *letters]
    return transformers.T5Tokenizer(vocab=pieces, extra_ids=0)
