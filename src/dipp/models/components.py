"""Components of a pipeline in diffusers' format: configs, weights and tokenizers, each in a folder of its own.

No code of a pipeline is run: its classes are named here and not read from its files, weights are safetensors, and other
files are JSON or text. `identity` is a hash over everything that a prediction or a decoded picture depends on.
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
"""File that lists the components of a pipeline."""
NETWORKS = ("unet", "transformer")
"""Names of the component that predicts latents."""
UNUSED = ("safety_checker", "feature_extractor", "image_encoder")
"""Components that no prediction depends on."""
DIFFUSERS, TRANSFORMERS = "diffusion_pytorch_model", "model"
"""Stems of the files of weights that diffusers and transformers write."""
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
"""Patterns of the files that are fetched from the hub."""


@dataclass(frozen=True)
class Pipeline:
    """A folder with the components of a pipeline, such as network, VAE, text encoder and tokenizer."""

    name: str
    """Folder or hub id, as the user named it."""
    folder: Path
    """Folder with the components."""
    index: Mapping[str, Any]
    """Content of `model_index.json`: library and class of each component, by its name."""

    @classmethod
    def open(cls, name: str) -> Pipeline:
        """Open a folder, or fetch a hub repository and open it.

        Args:
            name: Folder or hub id.

        Raises:
            DippError: There is no such folder or repository, or it has no `model_index.json`.
        """
        folder = hub.fetch(name, PATTERNS)
        return cls(name, folder, hub.read_json(name, folder / hub.find(name, folder, (INDEX,))))

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the components that predictions depend on, in alphabetical order."""
        listed = [part for part, kind in self.index.items() if isinstance(kind, list) and any(kind)]
        return tuple(sorted(part for part in listed if part not in UNUSED and not part.startswith("_")))

    def require(self, needed: tuple[str, ...]) -> None:
        """Raise unless the pipeline has exactly the components `needed`."""
        lacking = [part for part in needed if part not in self.parts or not (self.folder / part).is_dir()]
        others = [part for part in self.parts if part not in needed]
        if lacking or others:
            problem = f"lacks {', '.join(lacking)}" if lacking else f"also has {', '.join(others)}"
            raise DippError("model", f"{self.name} {problem}", f"name a pipeline of {', '.join(needed)}")

    def config(self, part: str) -> dict[str, Any]:
        """Return the config of a component, by its name in the pipeline."""
        file = Path(part) / ("scheduler_config.json" if part == "scheduler" else "config.json")
        return hub.read_json(self.name, self.folder / hub.find(self.name, self.folder, (file.as_posix(),)))

    def tensors(self, part: str) -> dict[str, torch.Tensor]:
        """Return the stored weights of a component, from one file or from several.

        If there are both, the single file is read, as transformers does: the hash must cover the weights that text
        encoders are loaded from.

        Args:
            part: Name of the component.

        Returns:
            Tensors in their stored dtypes, by their names.

        Raises:
            DippError: The files are missing, damaged, or do not fit together.
        """
        from dipp.models.hub import read_tensors

        single, listed = self._weights(part)
        if single.is_file() or not listed.is_file():
            return read_tensors(self.name, Path(part) / single.name)
        files = self._weight_files(listed)
        tensors: dict[str, torch.Tensor] = {}
        for file in sorted(set(files.values())):
            content = read_tensors(self.name, Path(part) / file)
            if content.keys() != {name for name, stored_in in files.items() if stored_in == file}:
                raise DippError(
                    "model", f"{self.name} has files of {part} that do not fit together", "fetch the model again"
                )
            tensors |= content
        return tensors

    def files(self, part: str) -> list[Path]:
        """Return the files of a tokenizer or of a text encoder's weights that the identity covers."""
        if part.startswith("tokenizer"):
            return [path for file in TOKENIZER_FILES if (path := self.folder / part / file).is_file()]
        single, listed = self._weights(part)
        if single.is_file() or not listed.is_file():
            return [single]
        return [listed, *(self.folder / part / file for file in sorted(set(self._weight_files(listed).values())))]

    def _weights(self, part: str) -> tuple[Path, Path]:
        """Return the paths of a component's weights in one file, and of the index of weights in several files."""
        stem = TRANSFORMERS if part.startswith("text") else DIFFUSERS
        return self.folder / part / f"{stem}.safetensors", self.folder / part / f"{stem}.safetensors.index.json"

    def _weight_files(self, listed: Path) -> dict[str, str]:
        """Return the file that holds each tensor, by the tensor's name, as the index at the path `listed` states."""
        files, stem = hub.read_json(self.name, listed).get("weight_map"), listed.name.partition(".")[0]
        if not isinstance(files, dict) or not all(_is_weight_file(stem, file) for file in files.values()):
            raise DippError("model", f"{self.name} has a damaged {listed.name}", "fetch the model again")
        return files

    def identity(self, known: Mapping[str, Mapping[str, torch.Tensor]]) -> str:
        """Return the hex SHA-256 of the model, as `models.identity` defines it.

        Args:
            known: Weights of components that were read before, by component; the others are read.
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
"""Key of the index: for an empty prompt, the network is given zeros in place of the text encoders' states."""


def _is_weight_file(stem: str, file: Any) -> bool:
    """Return whether `file`, from an index of weights, is a file beside that index whose name begins with `stem`."""
    return isinstance(file, str) and file.startswith(stem) and file.endswith(".safetensors") and "/" not in file
