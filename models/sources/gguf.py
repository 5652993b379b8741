"""Conversion of a GGUF file to a folder of safetensors and tokenizer, which is read like any other model.

transformers reads the file and dequantizes it. Quantized weights become float32, and a file that is half precision
throughout keeps its dtype. Blocks that a kernel can use directly are stored next to the weights.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from gguf import GGUFReader
from tokenizers import pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    modeling_gguf_pytorch_utils,
)

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import ModelError, first_line
from sottovoce.core.files import models_folder, opened
from sottovoce.models.huggingface.load_files import quiet
from sottovoce.models.huggingface.packing import matrices
from sottovoce.models.sources.blocks import keep
from sottovoce.models.sources.cache import Source, digest_of, new_folder, source_of, write_source

MAGIC = b"GGUF"
HALF = {"F16": torch.float16, "BF16": torch.bfloat16}
READER = f"transformers {transformers.__version__}"


@dataclass(frozen=True)
class Header:
    """The metadata of a GGUF file."""

    architecture: str
    licence: str
    split: str
    values: int
    """Number of values in all tensors."""
    dtype: torch.dtype
    """The narrowest dtype that represents the file's matrices exactly."""


def converted(file: Path) -> Path:
    """Return the folder of a converted GGUF file, found by the file's digest; convert it if there is none.

    Raises:
        ModelError: not a GGUF file, a cut file, one part of several, or an architecture that transformers cannot read.
    """
    digest = digest_of(file)
    folder = models_folder() / f"gguf-{digest[:16]}"
    if source_of(folder) is None:
        header = read_header(file)
        with new_folder(folder) as made_in:
            split = convert(file, header, made_in)
            write_source(made_in, Source(origin=file.name, digest=digest, licence=header.licence, split=split))
    return folder


def read_header(file: Path) -> Header:
    """Return the metadata of a GGUF file."""
    with opened(file) as stream:
        begins = stream.read(len(MAGIC))
    if begins != MAGIC:
        raise ModelError(f"{str(file)!r} is not a GGUF file: it begins with {begins!r}, expected {MAGIC!r}")
    try:
        reader = GGUFReader(file)
    except Exception as error:  # numpy, enum and the reader itself fail on a cut file, each with its own message
        size = file.stat().st_size
        raise ModelError(f"GGUF file {str(file)!r} is cut or damaged, at {size:,} bytes; fetch it again") from error

    def field(key: str, default: JSONValue) -> JSONValue:
        entry = reader.get_field(key)
        return default if entry is None else entry.contents()

    if (parts := field("split.count", 1)) > 1:
        raise ModelError(f"GGUF file {str(file)!r} is one of {parts} parts; join them first (llama-gguf-split --merge)")
    matrices = {tensor.tensor_type.name for tensor in reader.tensors if len(tensor.shape) > 1}
    return Header(
        architecture=str(field("general.architecture", "none")),
        licence=str(field("general.license", "not told")),
        split=str(field("tokenizer.ggml.pre", "")),
        values=sum(int(tensor.n_elements) for tensor in reader.tensors),
        dtype=HALF.get(" ".join(matrices), torch.float32),
    )


def convert(file: Path, header: Header, folder: Path) -> str:
    """Write the contents of a GGUF file as safetensors and tokenizer to `folder`; return how text is split.

    Raises:
        ModelError: transformers cannot read it, it lacks weights, or the disk is too full.
    """
    quiet()
    _check_disk(file, header, folder)
    tokenizer, model = _read(file, header)
    split = split_as_trained(tokenizer, header.split)
    _plain(model).save_pretrained(folder)
    keep(GGUFReader(file).tensors, matrices(model), folder)
    tokenizer.save_pretrained(folder)
    return split


def _check_disk(file: Path, header: Header, folder: Path) -> None:
    needed = header.values * header.dtype.itemsize + file.stat().st_size  # its blocks are stored too
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ModelError(
            f"GGUF file {str(file)!r} takes {needed / 1e9:.1f} GB when converted, and {free / 1e9:.1f} GB are free in "
            f"{str(folder.parent)!r}; set SOTTOVOCE_MODELS to a folder with room"
        )


def _read(file: Path, header: Header) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    with _alone(file) as at, _without_bars():
        try:
            config = AutoConfig.from_pretrained(**at)
        except Exception as error:  # transformers has no error class for it
            raise ModelError(
                f"GGUF file {str(file)!r} has the architecture {header.architecture!r}, which {READER} cannot read "
                f"({first_line(error)}); use another model, or its safetensors"
            ) from error
        try:
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(**at)
            loaded: JSONValue = AutoModelForCausalLM.from_pretrained(
                **at, config=config, dtype=header.dtype, output_loading_info=True
            )
        except Exception as error:  # any error in a file that anybody may have made
            raise ModelError(f"GGUF file {str(file)!r} cannot be read by {READER}: {first_line(error)}") from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        raise ModelError(
            f"GGUF file {str(file)!r} lacks {len(missing)} of the weights of a {type(model).__name__}, "
            f"{missing[0]!r} among them; fetch it again"
        )
    return tokenizer, model


@contextmanager
def _alone(file: Path) -> Iterator[dict[str, Any]]:  # Any: what from_pretrained takes
    """Link the file into its own folder for transformers, which would read other files next to it too."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "model.gguf").symlink_to(file.resolve())
        yield {"pretrained_model_name_or_path": folder, "gguf_file": "model.gguf", "trust_remote_code": False}


@contextmanager
def _without_bars() -> Iterator[None]:
    """Silence the progress bar of transformers' GGUF reader (5.23), which its own switch for bars does not reach."""
    reader: Any = modeling_gguf_pytorch_utils  # Any: the bar is not part of its API
    bar = reader.tqdm
    reader.tqdm = partial(bar, disable=True)
    try:
        yield
    finally:
        reader.tqdm = bar


def _plain(model: PreTrainedModel) -> PreTrainedModel:
    """Return a savable model with the same weights: one read from a GGUF file refuses, even if dequantized."""
    config = deepcopy(model.config)
    for name in ("quantization_config", "_model_name_or_path"):
        if hasattr(config, name):
            delattr(config, name)
    with torch.device("meta"):  # no second copy of the weights
        plain = type(model)(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.generation_config = model.generation_config
    return plain


DIGITS_ALONE = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
"""Single digits, then as GPT-2; otherwise line breaks before a number become other tokens than in training."""
AS_GPT2 = ("gpt-2", "mpt", "olmo", "jais", "phi-2", "trillion")


def split_as_trained(tokenizer: PreTrainedTokenizerBase, rule: str) -> str:
    """Set the rule of a GGUF file's tokenizer if transformers does not know it; return the rule, for the record."""
    backend = tokenizer.backend_tokenizer
    if not rule or not isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        return rule
    if rule in DIGITS_ALONE:
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
        return rule
    return rule if rule in AS_GPT2 else f"{rule}, which is not known: as GPT-2 does"
