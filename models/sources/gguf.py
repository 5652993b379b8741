"""Conversion of a GGUF file to a folder of safetensors and tokenizer, which is read like any other model.

transformers reads the file and dequantizes it. Quantized weights become float32, and a file that is half precision
throughout keeps its dtype.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from math import gcd
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, ReaderField, dequantize
from numpy.typing import NDArray
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
from sottovoce.core.files import models_folder
from sottovoce.core.text import counted
from sottovoce.core.validation import shown
from sottovoce.models.huggingface.load_files import NUMBERED, quiet
from sottovoce.models.sources.cache import (
    CONVERTED,
    RECORD,
    Report,
    Source,
    digest_of,
    new_folder,
    remove_oldest,
    source_of,
    write_source,
)

STRING, ARRAY = GGUFValueType.STRING, GGUFValueType.ARRAY
UNREAD = {f"tokenizer.ggml.{name}" for name in ("merges", "scores", "token_type")}
"""Long lists that transformers (5.23) has a reader of its own for; from gguf's it needs the number of tokens only."""
MOST_KEYS, MOST_ITEMS, MOST_TENSORS = 10_000, 2_000_000, 10_000
"""The largest vocabularies have 1,300,000 items in all their lists."""
JOINED = 4  # rows dequantized as if they were one: gguf takes 16 rows at a time, too few if they are short
HALF = {"F16": torch.float16, "BF16": torch.bfloat16}
DIGITS_ALONE = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
"""Single digits, then as GPT-2; otherwise line breaks before a number become other tokens than in training."""
AS_GPT2 = ("gpt-2", "mpt", "olmo", "jais", "phi-2", "trillion")


class Reader(GGUFReader):
    """gguf's reader, which takes lists as a whole, and counts before it builds.

    gguf (0.19) makes two arrays on the mapped file of each item: 20 s for a vocabulary of 150,000 tokens.
    """

    items = 0
    """Number of items of the lists so far."""

    def _build_fields(self, offs: int, count: int) -> int:
        _check_count("keys", count, MOST_KEYS)
        self.data: Any = np.asarray(self.data)  # Any: no longer a memmap, of which each slice takes ten times as long
        return super()._build_fields(offs, count)

    def _build_tensor_info(self, offs: int, count: int) -> tuple[int, list[ReaderField]]:
        _check_count("tensors", count, MOST_TENSORS)
        return super()._build_tensor_info(offs, count)

    def _push_field(self, field: ReaderField, skip_sum: bool = False) -> int:
        return 0 if field.name in UNREAD else super()._push_field(field, skip_sum)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[GGUFValueType]]:
        """Return the size of a value, its parts, which of these have the items, and its types."""
        if raw_type != ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        kind, count = (int(self._get(at, of)[0]) for at, of in ((orig_offs, np.uint32), (orig_offs + 4, np.uint64)))
        self.items, start = self.items + count, orig_offs + 12
        _check_count("items in its lists", self.items, MOST_ITEMS)
        if kind == ARRAY:
            raise ValueError("it has a list of lists; expected lists of numbers or texts")
        if self.byte_order != "I":  # "S": made on a machine of the other byte order
            return super()._get_field_parts(orig_offs, raw_type)
        if kind == STRING:
            items, end = self._strings(start, count)
        elif kind in self.gguf_scalar_to_np:
            values = np.frombuffer(self.data, self.gguf_scalar_to_np[GGUFValueType(kind)], count, start)
            items, end = list(values[:, None]), start + values.nbytes
        else:
            return super()._get_field_parts(orig_offs, raw_type)
        return end - orig_offs, items, [*range(count)], [ARRAY, GGUFValueType(kind)][: 1 + bool(count)]

    def _strings(self, at: int, count: int) -> tuple[list[Any], int]:
        """Return the bytes of strings, and where the last one ends."""
        whole, items = memoryview(self.data), list[memoryview]()
        for _ in range(count):
            at += 8
            (length,) = struct.unpack_from("=Q", whole, at - 8)  # raises an error beyond the end of the file
            items.append(whole[at : at + length])
            at += length
        return items, at


def _check_count(kind: str, count: int, limit: int) -> None:
    if count > limit:
        raise ValueError(f"it has {count:,} {kind}; expected at most {limit:,}")


def check_sizes(reader: GGUFReader) -> None:
    """Refuse a file that says it has more layers or values than it holds: all would be built."""
    held = len({at[2] for tensor in reader.tensors if (at := NUMBERED.match(tensor.name))})
    for name, field in reader.fields.items():
        said = field.contents() if name.endswith(".block_count") else 0
        if not isinstance(said, int) or said > held:
            raise ValueError(f"{name} is {shown(said)}, but it has tensors of {held} layers; join the parts of a split")
    if (taken := sum(tensor.n_bytes for tensor in reader.tensors)) > reader.data.nbytes:
        raise ValueError(f"its tensors take {taken:,} bytes, but the file has {reader.data.nbytes:,}")


def dequantized(data: NDArray[Any], kind: GGMLQuantizationType) -> NDArray[Any]:
    """Return the values of a tensor, as `gguf.dequantize` has them, in half the time."""
    rows = data.reshape(-1, data.shape[-1])
    values = dequantize(rows.reshape(len(rows) // gcd(len(rows), JOINED), -1), kind)
    return values.reshape(*data.shape[:-1], -1)


_reader: Any = modeling_gguf_pytorch_utils  # Any: the bar is not part of its API
_reader.tqdm = partial(_reader.tqdm, disable=True)  # transformers' own switch for bars (5.23) does not reach it
_converting = threading.Lock()


@contextmanager
def _quick_reading() -> Iterator[None]:
    """Let transformers (5.23) find quicker functions in gguf, for the time of one conversion."""
    quicker = {"GGUFReader": Reader, "dequantize": dequantized}
    quicker["get_tensor_name_map"] = cache(gguf.get_tensor_name_map)  # asked again for each module of a model
    with _converting:
        names = vars(gguf)
        original = {name: names[name] for name in quicker}
        names.update(quicker)
        try:
            yield
        finally:
            names.update(original)


def converted(file: Path, report: Report = lambda line: None) -> Path:
    """Return the folder of a converted GGUF file, found by the file's digest; convert it if there is none.

    Beyond a limit, the least recently used earlier conversions are deleted.

    Raises:
        ModelError: not a complete GGUF file, or one that transformers cannot read.
    """
    digest = digest_of(file)
    folder = models_folder() / f"{CONVERTED}{digest[:16]}"
    if source_of(folder) is not None:
        with suppress(OSError):  # a cache that others made may be read-only
            os.utime(folder / RECORD)  # in use now
    else:
        report(f"converting {file.name}")
        with new_folder(folder) as made_in:
            licence, split = convert(file, made_in)
            write_source(made_in, Source(origin=file.name, digest=digest, licence=licence, split=split))
        remove_oldest(folder)
    return folder


def convert(file: Path, folder: Path) -> tuple[str, str]:
    """Write the contents of a GGUF file as safetensors and tokenizer to `folder`; return its licence and split rule.

    Raises:
        ModelError: not a complete GGUF file, or one that transformers cannot read.
    """
    quiet()
    try:
        reader = Reader(file)
        check_sizes(reader)
        kinds = {tensor.tensor_type.name for tensor in reader.tensors if len(tensor.shape) > 1}
        with _alone(file) as at, _quick_reading():
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(**at)
            config = AutoConfig.from_pretrained(**at)
            vars(config).pop("_model_name_or_path", None)
            with torch.device("meta"):  # a savable model: one read from a GGUF file refuses, even if dequantized
                plain: PreTrainedModel = AutoModelForCausalLM.from_config(config)
            described, held = plain.num_parameters(), sum(tensor.n_elements for tensor in reader.tensors)
            if described > 2 * held:  # weights that it lacks would be made up first; few are refused below
                raise ValueError(f"it describes a model of {described:,} weights, but has {held:,}")
            # The narrowest dtype that represents the file's matrices exactly.
            dtype = HALF.get(" ".join(kinds), torch.float32)
            loaded: JSONValue = AutoModelForCausalLM.from_pretrained(
                **at, config=config, dtype=dtype, output_loading_info=True
            )
    except Exception as error:  # any error in a file that anybody may have made
        raise ModelError(
            f"GGUF file {str(file)!r} cannot be read by transformers {transformers.__version__}: {first_line(error)}; "
            "fetch it again, or use the model's safetensors"
        ) from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        raise ModelError(
            f"GGUF file {str(file)!r} lacks {counted(len(missing), 'weight')} of a {type(model).__name__}, "
            f"such as {missing[0]!r}; fetch it again, and join the parts of a split file"
        )
    licence, rule = (
        str(field.contents()) if (field := reader.get_field(key)) else ""
        for key in ("general.license", "tokenizer.ggml.pre")
    )
    split = split_as_trained(tokenizer, rule)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.generation_config = model.generation_config
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return licence or "not told", split


@contextmanager
def _alone(file: Path) -> Iterator[dict[str, Any]]:  # Any: what from_pretrained takes
    """Link the file into its own folder for transformers, which would read other files next to it too."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "model.gguf").symlink_to(file.resolve())
        yield {"pretrained_model_name_or_path": folder, "gguf_file": "model.gguf", "trust_remote_code": False}


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
