"""Components of a pipeline in diffusers' format: configs, weights and tokenizers, each in a folder of its own.

Nothing of a pipeline is run: classes are named here and not taken from its files, weights are safetensors, and other
files are JSON or text. `identity` is the hash over all that a prediction, or a decoded picture, depends on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.core.latents import REACH
from dipp.errors import DippError
from dipp.models import hub
from dipp.models.identity import add_json, add_tensors

if TYPE_CHECKING:
    import torch

INDEX = "model_index.json"
NETWORKS = ("unet", "transformer")
UNUSED = ("safety_checker", "feature_extractor", "image_encoder")
"""Components that no prediction depends on."""
DIFFUSERS, TRANSFORMERS = "diffusion_pytorch_model", "model"
"""Names of the weights of components that diffusers and transformers wrote."""
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILES = (
    "vocab.json",
    "merges.txt",
    "tokenizer.json",
    "spiece.model",
    "added_tokens.json",
    "special_tokens_map.json",
    TOKENIZER_CONFIG,
)
PATTERNS = (
    INDEX,
    *(f"{part}/config.json" for part in (*NETWORKS, "vae", "text_encoder", "text_encoder_2")),
    "scheduler/scheduler_config.json",
    *(
        f"{part}/{name}{end}"
        for part in (*NETWORKS, "vae", "text_encoder", "text_encoder_2")
        for name in ((TRANSFORMERS,) if part.startswith("text") else (DIFFUSERS,))
        for end in (".safetensors", ".safetensors.index.json", "-*.safetensors")
    ),
    *(f"{part}/{name}" for part in ("tokenizer", "tokenizer_2") for name in TOKENIZER_FILES),
)
"""Files that are fetched from the hub."""


@dataclass(frozen=True)
class Pipeline:
    """A folder with the components of a pipeline."""

    name: str
    """What a user calls the model."""
    folder: Path
    index: Mapping[str, Any]
    """The pipeline's list of its components."""

    @classmethod
    def open(cls, name: str) -> Pipeline:
        """Open a folder, or a hub repository, whose files are fetched first."""
        folder = hub.fetch(name, PATTERNS)
        return cls(name, folder, hub.read_json(name, folder / hub.find(name, folder, (INDEX,))))

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the components that predictions depend on, in alphabetical order."""
        listed = [part for part, kind in self.index.items() if isinstance(kind, list) and any(kind)]
        return tuple(sorted(part for part in listed if part not in UNUSED and not part.startswith("_")))

    def require(self, needed: tuple[str, ...]) -> None:
        """Raise unless these are the components, all of them."""
        lacking = [part for part in needed if part not in self.parts or not (self.folder / part).is_dir()]
        others = [part for part in self.parts if part not in needed]
        if lacking or others:
            said = f"lacks {', '.join(lacking)}" if lacking else f"also has {', '.join(others)}"
            raise DippError("model", f"{self.name} {said}", f"a pipeline of {', '.join(needed)} is needed")

    def config(self, part: str) -> dict[str, Any]:
        """Return the config of a component."""
        file = Path(part) / ("scheduler_config.json" if part == "scheduler" else "config.json")
        return hub.read_json(self.name, self.folder / hub.find(self.name, self.folder, (file.as_posix(),)))

    def tensors(self, part: str) -> dict[str, torch.Tensor]:
        """Return the stored weights of a component, of one file or else of several.

        A single file goes first, as it does in transformers: what is hashed must be what text encoders are loaded from.
        """
        from dipp.models.hub import read_tensors

        single, listed = self._weights(part)
        if single.is_file() or not listed.is_file():
            return read_tensors(self.name, Path(part) / single.name)
        places = self._places(listed)
        found: dict[str, torch.Tensor] = {}
        for file in sorted(set(places.values())):
            tensors = read_tensors(self.name, Path(part) / file)
            if tensors.keys() != {name for name, place in places.items() if place == file}:
                raise DippError(
                    "model", f"the files of {part} of {self.name} do not fit together", "fetch the model again"
                )
            found |= tensors
        return found

    def files(self, part: str) -> list[Path]:
        """Return the files of a tokenizer, or of the weights of a text encoder, that the identity covers."""
        if part.startswith("tokenizer"):
            return [path for file in TOKENIZER_FILES if (path := self.folder / part / file).is_file()]
        single, listed = self._weights(part)
        if single.is_file() or not listed.is_file():
            return [single]
        return [listed, *(self.folder / part / file for file in sorted(set(self._places(listed).values())))]

    def _weights(self, part: str) -> tuple[Path, Path]:
        """Return where the weights of a component are if they are one file, and where the list is if they are more."""
        stem = TRANSFORMERS if part.startswith("text") else DIFFUSERS
        return self.folder / part / f"{stem}.safetensors", self.folder / part / f"{stem}.safetensors.index.json"

    def _places(self, listed: Path) -> dict[str, str]:
        """Return the file of each tensor, by its name, from the list of a component."""
        places, stem = hub.read_json(self.name, listed).get("weight_map"), listed.name.partition(".")[0]
        if not isinstance(places, dict) or not all(_is_shard(stem, file) for file in places.values()):
            raise DippError("model", f"{listed.name} of {self.name} is damaged", "fetch the model again")
        return places

    def identity(self, known: Mapping[str, Mapping[str, torch.Tensor]]) -> str:
        """Return the hex SHA-256 of the model.

        Args:
            known: Weights that were read before, by component.
        """
        digest = hashlib.sha256()

        def add(part: bytes | memoryview) -> None:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)

        add(b"dipp/model/3")
        add(repr(REACH).encode())
        add_json(add, {key: value for key, value in self.index.items() if key in (*self.parts, ZEROS)})
        for part in self.parts:
            add(part.encode())
            if part.startswith("tokenizer"):
                for path in self.files(part):
                    add(path.name.encode())
                    add(path.read_bytes())
                continue
            config = self.config(part)
            add(str(config.get("_class_name")).encode())
            add_json(add, config)
            if part != "scheduler":
                add_tensors(add, known.get(part) or self.tensors(part))
        return digest.hexdigest()


ZEROS = "force_zeros_for_empty_prompt"
"""Key of the index: an empty prompt is told as zeros, and not as what the text encoders make of it."""


def _is_shard(stem: str, file: Any) -> bool:
    """Return whether a name is that of a file of weights beside its index, and of no file elsewhere."""
    return isinstance(file, str) and file.startswith(stem) and file.endswith(".safetensors") and "/" not in file
