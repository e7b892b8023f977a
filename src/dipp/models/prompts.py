"""Prompts: what the text encoders of a latent model make of a public text, which its network is told.

The text is empty by default. A text that describes a private picture tells about it: a prompt must be public, and files
record it. Text encoders run once for each prompt, in fp32, and are dropped again.

transformers reads more files than the identity of a model covers, and follows names in configs to others. So it is
given a folder that has the covered files alone (`_covered`).
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.errors import DippError
from dipp.models import hub
from dipp.models.components import TOKENIZER_CONFIG, Pipeline
from dipp.models.identity import covered

if TYPE_CHECKING:
    import torch

VOCABULARIES = (("tokenizer.json",), ("vocab.json", "merges.txt"), ("spiece.model",))
"""Files of a tokenizer, and one group of them is needed: without any, transformers makes an empty vocabulary."""
ADAPTER = "adapter_config.json"
"""File by which transformers knows that weights beside the text encoder's own are to be added."""
ELSEWHERE = ("configuration_files", "fast_tokenizer_files")
"""Keys of configs by which transformers loads other files, which no identity covers."""
T5_TOKENS = 512
"""Tokens that FLUX is told of a prompt."""


def last_states(pipeline: Pipeline, prompt: str, device: torch.device) -> torch.Tensor:
    """Return the last hidden states of CLIP's text encoder, 1 × tokens × dimensions: Stable Diffusion 1 and 2."""
    states: torch.Tensor = _clip(pipeline, "", prompt, device, "CLIPTextModel").last_hidden_state
    return states


def states_of_two(pipeline: Pipeline, prompt: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the states before the last layer of both text encoders, and the second's pooled output: XL."""
    first = _clip(pipeline, "", prompt, device, "CLIPTextModel")
    second = _clip(pipeline, "_2", prompt, device, "CLIPTextModelWithProjection")
    import torch

    return torch.cat([first.hidden_states[-2], second.hidden_states[-2]], dim=-1), second.text_embeds


def pooled_and_t5(pipeline: Pipeline, prompt: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return CLIP's pooled output, which reads the beginning of a long prompt alone, and the states of T5: FLUX."""
    pooled = _clip(pipeline, "", prompt, device, "CLIPTextModel", whole=False).pooler_output
    found = _encoded(pipeline, "_2", prompt, device, "T5EncoderModel", "T5TokenizerFast", T5_TOKENS)
    return pooled, found.last_hidden_state


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
    """Return the output of one text encoder for a prompt, padded to `length` tokens or the tokenizer's own number.

    Raises:
        DippError: A component is broken, or the prompt has more tokens and is needed as a whole. A prompt that was cut
            would be recorded with words that the network never read.
    """
    try:
        import transformers
    except ImportError:
        raise DippError(
            "model",
            f"{pipeline.name} has text encoders, which need transformers",
            'in a checkout of dipp, pip install ".[latent]"',
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
        raise DippError("prompt", f"{pipeline.name} reads {most} tokens at most, got {count}", "shorten it")
    if int(given.input_ids.max()) >= model.config.vocab_size:
        raise DippError(
            "model", f"tokenizer{which} of {pipeline.name} is not that of its text encoder", "fetch it again"
        )
    model = model.eval().requires_grad_(False).to(device)
    found: list[Any] = []

    def call() -> torch.Tensor:
        found.append(model(given.input_ids.to(device), output_hidden_states=True, return_dict=True))
        states: torch.Tensor = found[0].last_hidden_state
        return states

    computed(call, device, Numbers.EXACT)
    return found[0]


def _both(pipeline: Pipeline, which: str, tokens: Any, kind: Any) -> tuple[Any, Any]:
    """Return tokenizer and text encoder, the latter from exactly its stored weights, in fp32."""
    import torch

    names = {path.name for path in pipeline.files(f"tokenizer{which}")}
    if not any(names.issuperset(files) for files in VOCABULARIES):
        raise DippError("model", f"tokenizer{which} of {pipeline.name} has no vocabulary", "fetch the model again")
    if (pipeline.folder / f"text_encoder{which}" / ADAPTER).exists():  # nothing of it is loaded here
        raise DippError("model", f"text_encoder{which} of {pipeline.name} has an adapter", "merge it into the weights")
    tokenizer = _loaded(pipeline, f"tokenizer{which}", tokens, {})
    options = {"use_safetensors": True, "output_loading_info": True, "dtype": torch.float32}
    options |= {"attn_implementation": "eager"}  # a config may name another, which is fetched and run
    model, facts = _loaded(pipeline, f"text_encoder{which}", kind, options)
    if facts["missing_keys"] or facts["mismatched_keys"]:
        raise DippError(
            "model", f"weights of text_encoder{which} of {pipeline.name} are missing", "fetch the model again"
        )
    return tokenizer, model


@contextlib.contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Let transformers draw no progress bar, and not warn of weights that a text encoder does not use."""
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
    """Load a component that transformers wrote, from what the identity covers alone and without running code of it."""
    with _covered(pipeline, part) as folder, _refusing(pipeline, part):
        return kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **options)


@contextlib.contextmanager
def _covered(pipeline: Pipeline, part: str) -> Iterator[Path]:
    """Make a folder with what the identity covers of a component: links to its files, and its config."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for path in pipeline.files(part):
            (folder / path.name).symlink_to(path.resolve())
        own = folder / TOKENIZER_CONFIG
        if not part.startswith("tokenizer"):
            own = folder / "config.json"
            own.write_text(json.dumps(covered(pipeline.config(part))), encoding="utf-8")
        config = hub.read_json(pipeline.name, own) if own.exists() else {}
        if others := [key for key in ELSEWHERE if key in config]:
            raise DippError(
                "model",
                f"{own.name} in {part} of {pipeline.name} has {others[0]}, which names other files",
                "take it out",
            )
        yield folder


@contextlib.contextmanager
def _refusing(pipeline: Pipeline, part: str) -> Iterator[None]:
    """Raise in one line if a component fails: transformers and its libraries raise exceptions of many classes."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise DippError("model", f"{part} of {pipeline.name} cannot be loaded: {reason}") from None
