"""Prompts: encode a public text by the text encoders of a latent model, as conditions for its network.

The text is empty by default. A text that describes a private picture reveals something about it, so a prompt must be
public, and files record it. Text encoders run once for each prompt, in fp32, and are then dropped.

The library transformers reads more files than the identity of a model covers, and follows names in configs to further
files. So it is given a folder that has the covered files alone (`_covered`).
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.errors import DippError, installing
from dipp.models import hub
from dipp.models.components import TOKENIZER_CONFIG, Pipeline
from dipp.models.identity import covered

if TYPE_CHECKING:
    import torch

VOCABULARIES = (("tokenizer.json",), ("vocab.json", "merges.txt"), ("spiece.model",))
"""Groups of files with a tokenizer's vocabulary. One is required, because transformers makes an empty one without."""
ADAPTER = "adapter_config.json"
"""File that makes transformers add further weights to those of a text encoder."""
ELSEWHERE = ("configuration_files", "fast_tokenizer_files")
"""Keys of configs that make transformers load further files, which no identity covers."""
T5_TOKENS = 512
"""Number of tokens of a prompt that FLUX reads."""


def last_states(pipeline: Pipeline, prompt: str, device: torch.device) -> torch.Tensor:
    """Return the conditions of Stable Diffusion 1 and 2: the last hidden states of CLIP, (1, tokens, dimensions).

    Args:
        pipeline: The pipeline.
        prompt: The public text.
        device: Device of the text encoder.
    """
    states: torch.Tensor = _clip(pipeline, "", prompt, device, "CLIPTextModel").last_hidden_state
    return states


def states_of_two(pipeline: Pipeline, prompt: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the conditions of SDXL: states before the last layer of both encoders, and the second's pooled output.

    Args:
        pipeline: The pipeline.
        prompt: The public text.
        device: Device of the text encoders.
    """
    first = _clip(pipeline, "", prompt, device, "CLIPTextModel")
    second = _clip(pipeline, "_2", prompt, device, "CLIPTextModelWithProjection")
    import torch

    return torch.cat([first.hidden_states[-2], second.hidden_states[-2]], dim=-1), second.text_embeds


def pooled_and_t5(pipeline: Pipeline, prompt: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the conditions of FLUX: CLIP's pooled output, for the beginning of a long prompt, and the states of T5.

    Args:
        pipeline: The pipeline.
        prompt: The public text.
        device: Device of the text encoders.
    """
    pooled = _clip(pipeline, "", prompt, device, "CLIPTextModel", whole=False).pooler_output
    encoded = _encoded(pipeline, "_2", prompt, device, "T5EncoderModel", "T5TokenizerFast", T5_TOKENS)
    return pooled, encoded.last_hidden_state


def _clip(pipeline: Pipeline, which: str, prompt: str, device: torch.device, kind: str, *, whole: bool = True) -> Any:
    return _encoded(pipeline, which, prompt, device, kind, "CLIPTokenizer", None, whole=whole)


def _encoded(
    pipeline: Pipeline,
    which: str,
    prompt: str,
    device: torch.device,
    kind: str,
    tokens: str,
    length: int | None,
    *,
    whole: bool = True,
) -> Any:
    """Return the output of one text encoder for a prompt, padded with tokens to a fixed length.

    Args:
        pipeline: The pipeline.
        which: End of the names of encoder and tokenizer: "" for the first, "_2" for the second.
        prompt: The public text.
        device: Device of the text encoder.
        kind: Class of the encoder in transformers.
        tokens: Class of the tokenizer in transformers.
        length: Number of tokens; None for the largest that tokenizer and encoder take.
        whole: Whether to raise if the prompt is too long. A file would record text that the network never read.

    Raises:
        DippError: A component is broken, or the prompt is too long and `whole` is true.
    """
    try:
        import transformers
    except ImportError:
        raise DippError(
            "model",
            f"{pipeline.name} has text encoders, which need transformers",
            installing("latent"),
        ) from None
    from dipp.models.denoiser import Numbers
    from dipp.models.engine import computed

    with _quiet(transformers.utils.logging):
        tokenizer, model = _both(pipeline, which, getattr(transformers, tokens), getattr(transformers, kind))
        with _refusing(pipeline, f"tokenizer{which}"):
            most = length or min(tokenizer.model_max_length, model.config.max_position_embeddings)
            count = len(tokenizer(prompt).input_ids)
            given = tokenizer(prompt, padding="max_length", max_length=most, truncation=True, return_tensors="pt")
    if whole and count > most:
        raise DippError("prompt", f"has {count} tokens, and {pipeline.name} reads at most {most}", "shorten it")
    if int(given.input_ids.max()) >= model.config.vocab_size:
        raise DippError(
            "model", f"{pipeline.name} has a tokenizer{which} that does not fit its text encoder", "fetch it again"
        )
    model = model.eval().requires_grad_(False).to(device)
    outputs: list[Any] = []

    def call() -> torch.Tensor:
        outputs.append(model(given.input_ids.to(device), output_hidden_states=True, return_dict=True))
        states: torch.Tensor = outputs[0].last_hidden_state
        return states

    computed(call, device, Numbers.EXACT)
    return outputs[0]


def _both(pipeline: Pipeline, which: str, tokens: Any, kind: Any) -> tuple[Any, Any]:
    """Return a tokenizer and a text encoder of a pipeline, given their classes; the encoder has its stored weights."""
    import torch

    names = {path.name for path in pipeline.files(f"tokenizer{which}")}
    if not any(names.issuperset(files) for files in VOCABULARIES):
        raise DippError("model", f"{pipeline.name} has no vocabulary in tokenizer{which}", "fetch the model again")
    if (pipeline.folder / f"text_encoder{which}" / ADAPTER).exists():  # no adapter is loaded here
        raise DippError("model", f"{pipeline.name} has an adapter in text_encoder{which}", "merge it into the weights")
    tokenizer = _loaded(pipeline, f"tokenizer{which}", tokens, {})
    options = {"use_safetensors": True, "output_loading_info": True, "dtype": torch.float32}
    options |= {"attn_implementation": "eager"}  # a config may name another, which is fetched and run
    model, facts = _loaded(pipeline, f"text_encoder{which}", kind, options)
    if facts["missing_keys"] or facts["mismatched_keys"]:
        raise DippError("model", f"{pipeline.name} lacks weights of text_encoder{which}", "fetch the model again")
    return tokenizer, model


@contextlib.contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Keep transformers from drawing progress bars and from warning of weights that a text encoder does not use."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def _loaded(pipeline: Pipeline, part: str, kind: Any, options: dict[str, Any]) -> Any:
    """Load a component by transformers, from the files that the identity covers, without running code of the model."""
    with _covered(pipeline, part) as folder, _refusing(pipeline, part):
        return kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **options)


@contextlib.contextmanager
def _covered(pipeline: Pipeline, part: str) -> Iterator[Path]:
    """Make a temporary folder with the part of a component that the identity covers: links to files, and its config."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for path in pipeline.files(part):
            (folder / path.name).symlink_to(path.resolve())
        config_file = folder / TOKENIZER_CONFIG
        if not part.startswith("tokenizer"):
            config_file = folder / "config.json"
            config_file.write_text(json.dumps(covered(pipeline.config(part))), encoding="utf-8")
        config = hub.read_json(pipeline.name, config_file) if config_file.exists() else {}
        if others := [key for key in ELSEWHERE if key in config]:
            raise DippError(
                "model",
                f"{pipeline.name} has {others[0]}, which names other files, in {config_file.name} of {part}",
                "remove that key",
            )
        yield folder


@contextlib.contextmanager
def _refusing(pipeline: Pipeline, part: str) -> Iterator[None]:
    """Turn any exception of transformers or its libraries, which have many classes, into a `DippError` of one line."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise DippError("model", f"{pipeline.name} has a {part} that cannot be loaded: {reason}") from None
