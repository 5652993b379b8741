"""Loading of a model and its tokenizer from a folder or a hub, and checks that their files are valid and fit.

No pickle, no remote code. An error is one line: file, found, expected.
"""

from __future__ import annotations

import json
import logging
import math
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.quantizers.auto import AutoHfQuantizer
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import ModelError, SottovoceError
from sottovoce.core.files import leads_out, opened, text_of
from sottovoce.core.text import amount
from sottovoce.models.huggingface.devices import MAP, Place, free_memory, placed
from sottovoce.models.huggingface.packed_weights import GROUP, ROWS, Dtype, Packing, format_of, pack

Report = Mapping[str, Iterable[str]]
MISMATCHED = "ignore_mismatched_sizes"
"""Part of the error that transformers (5.23) raises if weights do not have the shapes in config.json."""
CONFIG = "config.json"
MOST_GROWTH, FOLDS = 100, 18
"""Times that a tokenizer may make a text longer: those of published ones are 40 at most. Unicode has a character whose
compatible form has 18."""
GROWING = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "BertNormalizer", "ByteLevel"}
"""Steps that make some characters longer; once in a tokenizer they are usual, and do not count."""
ATTENTIONS = ("eager", "sdpa")
"""Implementations of attention that are part of transformers and torch."""
NUMBERED = re.compile(r"(.*?)\.(\d+)\.")
"""The name of a layer's weight: the path of the layers, and the layer's number."""
AGAIN = "fetch the folder again, as one"
BYTES = {"auto": 4, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1.25, "int4": 0.625}
"""Bytes of a value on a CPU; each group of int4 has two bytes of scale and two of zero."""
STORED = ("F32", "BF16", "F16")
"""Types that are read as they are; other types are quantized, and their size is not estimated."""
LONGEST = 10_000_000
"""Bytes of the longest header of a file. The largest mixtures of experts have 2 MB; a header of 90 MB, of 900,000 empty
tensors, took a minute."""


def check_memory(name: str, folder: Path, dtype: Dtype, packing: Packing | None, place: Place) -> None:
    """Refuse weights that do not fit in the CPU's memory while they are loaded.

    Models on a hub or spread over devices, quantized ones, and files that cannot be read are not checked here.
    """
    if place != "cpu":
        return
    headers: list[tuple[str, int]] = []  # the type and the number of values of each tensor
    # The loader reports the error.
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
        for file in sorted(folder.glob("model*.safetensors")):
            with opened(file) as stream:  # safetensors would map the whole file
                tensors = json.loads(stream.read(min(int.from_bytes(stream.read(8), "little"), LONGEST)))
            names = tensors.keys() - {"__metadata__"}
            headers += [(tensors[name]["dtype"], math.prod(tensors[name]["shape"])) for name in names]
    if any(kind not in STORED for kind, _ in headers):
        return
    form = packing or dtype
    takes, free = needed(headers, form), free_memory(torch.device("cpu"))
    if takes > free:
        less = "use a smaller model" if packing else "give weights int8 or int4, or use a smaller model"
        raise ModelError(
            f"model {name!r} takes {amount(takes)} to load in {'float32' if form == 'auto' else form}, and "
            f"{amount(free)} of memory is available; free some, or {less}"
        )


def needed(headers: list[tuple[str, int]], form: Dtype | Packing) -> float:
    """Return the bytes that weights take at most while they are loaded, from the type and size of each tensor.

    A checkpoint in the dtype of the computation is mapped from its file page by page. Any other one that is packed is
    first widened as a whole. The largest matrix is the embedding table, which stays float32 beside the packed head.
    """
    sizes = [size for _, size in headers]
    if form not in ("int8", "int4"):
        return BYTES[form] * sum(sizes)
    if any(kind != "F32" for kind, _ in headers):
        return 4 * sum(sizes)
    return BYTES[form] * sum(sizes) + 4 * max(sizes, default=0)


def read(
    name: str, where: str, dtype: Dtype, place: Place, packing: Packing | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model and the tokenizer at `where` (see `ready`), on their device; `name` is for errors.

    `dtype` and `packing` are those that `settled` returns.

    Raises:
        ModelError: pickled or damaged weights, an unreachable hub, a missing device or package, or a checkpoint that
            is already quantized and should be packed.
    """
    tokenizer = tokenizer_at(name, where)
    with reading(name, CONFIG):
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
        check_code(name, config)
        if Path(where).is_dir():
            check_files(name, Path(where), config)
        quantised = _is_quantised(name, config, packing)
    with reading(name):
        model, report = _weighed(where, config, dtype, place, quantised=quantised)
    check_generation(name, model.generation_config)
    check_weights(name, model, where, report)
    table: Any = model.get_input_embeddings().weight  # Any: a tensor, but modules type it otherwise
    check_tokenizer(name, tokenizer, len(table))
    model = placed(model, place)
    if packing is not None:
        pack(model, packing)
        if format_of(model) != packing:
            raise ModelError(
                f"model {name!r} has no matrix that {packing} can store: expected linear maps of {ROWS} n rows and "
                f"{GROUP} m columns; give weights float32"
            )
    return model, tokenizer


def _weighed(
    where: str, config: PreTrainedConfig, dtype: Dtype, place: Place, *, quantised: bool
) -> tuple[PreTrainedModel, Report]:
    """Return the model, and transformers' report of unexpected and missing weights."""
    devices = {place} if isinstance(place, str) else {device for _, device in place}
    on_cpu = not torch.accelerator.is_available() if place == MAP else devices <= {"cpu", "disk"}
    spread: str | dict[str, int | str] | None = "auto" if place == MAP else None
    if not isinstance(place, str):
        spread = dict(place)
    elif quantised and spread is None:
        spread = {"": place}  # some quantized kinds cannot be moved after loading
    loaded: Any = AutoModelForCausalLM.from_pretrained(  # Any: with a report, an untyped pair
        where,
        config=config,
        output_loading_info=True,
        dtype=torch.float32 if dtype == "auto" and on_cpu and not quantised else dtype,
        use_safetensors=True,
        trust_remote_code=False,
        device_map=spread,
    )
    model, report = loaded
    return model, report


def tokenizer_at(name: str, where: str) -> PreTrainedTokenizerBase:
    """Return the tokenizer at `where` (see `ready`), exactly as its tokenizer.json describes it.

    Raises:
        ModelError: an unreachable hub, or invalid tokenizer files.
    """
    quiet()
    folder = Path(where)
    whole = folder.parents[1] if folder.parent.name == "snapshots" else folder  # a hub's cache links to its blobs
    for file in (*folder.glob("*.jinja"), *folder.glob("*/*.jinja")):
        if leads_out(file, whole):  # any file of this machine could come into a prompt
            raise ModelError(f"{file.name} of model {name!r} is a link that leads out of its folder; put a copy there")
    with reading(name, "tokenizer" if Path(where).is_dir() else ""):
        # AutoTokenizer (transformers 5.23) uses its Qwen2 class for every model of type `qwen2`, and that class splits
        # words by Qwen's own pattern whatever the file says: other tokens than the model was trained on.
        described = cached_file(where, "tokenizer.json", _raise_exceptions_for_missing_entries=False)
        for file in (Path(described).parent if described else folder).glob("tokenizer*.json"):  # it may name another
            check_growth(name, file.name, json.loads(text_of(file)))
        kind = PreTrainedTokenizerFast if described else AutoTokenizer
        tokenizer: PreTrainedTokenizerBase = kind.from_pretrained(where, trust_remote_code=False)
        return tokenizer


def check_growth(name: str, file: str, tokenizer: Mapping[str, JSONValue]) -> None:
    """Refuse a tokenizer that may lengthen a text many times: one word would take all memory."""
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        times, seen = 1, set[str]()
        for step in _steps(tokenizer.get(part)):
            kind, old = str(step.get("type")), step.get("pattern")
            new = str(step.get("prepend") or ("pattern" in step and step.get("content")) or "")
            if replaced := isinstance(old, dict) and old.get("String"):
                times *= max(1, -(-len(new) // len(str(replaced))))
            elif "precompiled_charsmap" in step:  # a number of bytes, so many bytes of a trie, texts that end in a zero
                table = b64decode(str(step["precompiled_charsmap"]))
                times *= max(1, *map(len, table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")))
            else:  # an expression may match before each character
                times *= 1 + len(new) if new else FOLDS if kind in GROWING & seen else 1
            seen.add(kind)
        if times > MOST_GROWTH:
            raise ModelError(
                f"model {name!r} has a {part} in {file} that may make a text over {MOST_GROWTH} times as long; use the "
                "file that the model was published with"
            )


def _steps(part: JSONValue) -> Iterator[Mapping[str, JSONValue]]:
    """Yield the steps of a part of a tokenizer.json and of the sequences in it."""
    for each in part if isinstance(part, list) else [part]:
        if isinstance(each, dict):
            yield each
            for inner in each.values():
                if isinstance(inner, list):
                    yield from _steps(inner)


def _is_quantised(name: str, config: PreTrainedConfig, packing: Packing | None) -> bool:
    """Return True if a checkpoint is quantized. If it would be unpacked at the first pass, unpack it on loading."""
    found: JSON | None = getattr(config, "quantization_config", None)
    if not found:
        return False
    if not AutoHfQuantizer.supports_quant_method(found):
        raise ModelError(f"model {name!r} is quantized as {found.get('quant_method')!r}, unknown to transformers")
    if packing:
        raise ModelError(
            f"model {name!r} is quantized as {found.get('quant_method')!r} and cannot be packed in {packing} too; "
            "leave weights at auto, or use the checkpoint that it was made from"
        )
    if found.get("quant_method") == "compressed-tensors":
        found["dequantize"] = True  # otherwise its first pass unpacks the weights, with progress bars
    return True


def quiet() -> None:
    """Turn off the libraries' progress bars and retry messages; errors still reach the caller."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    for library in ("huggingface_hub", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)


@contextmanager
def reading(name: str, part: str = "") -> Iterator[None]:
    """Turn any error of a library that reads untrusted files into a ModelError of one line."""
    try:
        yield
    except (SottovoceError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # each library has its own classes, few are documented, and Rust's panics are these
        raise ModelError(f"model {name!r} cannot be loaded: {part and f'{part}: '}{reason(error)}") from error


def reason(error: BaseException) -> str:
    """Return the message of a library's error in one line."""
    text = str(error).strip()
    if "trust_remote_code" in text:
        return "it needs code of its own, which is never run; use a model that transformers supports"
    if MISMATCHED in text:
        return f"its weights do not have the shapes that {CONFIG} requires; {AGAIN}"
    first = text.split("\n")[0].rstrip()
    line = " ".join(text.split()) if first.endswith(":") else first
    return line if " " in line else f"{type(error).__name__} {line}".rstrip()  # a KeyError has only the key


def check_files(name: str, folder: Path, config: PreTrainedConfig) -> None:
    """Refuse a folder with unreadable weights, or with far fewer layers than its config: all would be built."""
    tensors, promised = shapes(name, folder), getattr(config.get_text_config(), "num_hidden_layers", 0)
    if tensors and promised > len(tensors):
        raise _of_layers(name, promised, tensors, max(_counts(tensors).values(), default=0))
    for key in tensors:
        if key.endswith(".biases") and f"{key.removesuffix('biases')}scales" in tensors:
            raise ModelError(
                f"model {name!r} has quantized weights of MLX, such as {key!r}; expected weights of transformers: use "
                "the checkpoint that it was made from, or `mlx_lm.convert --dequantize`"
            )
    if (generation := folder / "generation_config.json").is_file():
        with reading(name, generation.name):  # transformers (5.23) ignores a damaged one
            json.loads(text_of(generation))


def check_generation(name: str, generation: object) -> None:
    """Refuse sampling defaults that are not numbers; transformers (5.23) takes any value, and warns of some."""
    for key in ("temperature", "top_p", "top_k", "repetition_penalty"):
        value = getattr(generation, key, None)
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
            raise ModelError(f"model {name!r} has {key} {value!r} in generation_config.json; expected a number")
    listed = getattr(generation, "eos_token_id", None)
    if not all(isinstance(id, int) for id in (listed if isinstance(listed, list) else [listed or 0])):
        raise ModelError(f"model {name!r} has eos_token_id {listed!r} in generation_config.json; expected token ids")


def check_code(name: str, config: PreTrainedConfig) -> None:
    """Refuse a config that names an attention on a hub: transformers (5.23) would fetch and run that code."""
    if (found := getattr(config, "_attn_implementation", None)) not in (None, *ATTENTIONS):
        raise ModelError(
            f"model {name!r} names the attention {found!r} in {CONFIG}, which may be code of a hub; "
            f"expected {' or '.join(ATTENTIONS)}, or no such line"
        )
    for part in config.sub_configs:
        if isinstance(inner := getattr(config, part, None), PreTrainedConfig):
            check_code(name, inner)


def shapes(name: str, folder: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the file and the shape of each tensor."""
    found = dict[str, tuple[str, tuple[int, ...]]]()
    for file in sorted(path for path in folder.glob("model*.safetensors") if path.is_file()):
        try:
            with opened(file) as stream:
                if file.stat().st_size > (size := int.from_bytes(stream.read(8), "little")) > LONGEST:
                    raise _unloadable(name, f"{file.name} has a header of {size:,} bytes; expected {LONGEST:,} at most")
            with safe_open(file, "pt") as weights:
                found |= {key: (file.name, tuple(weights.get_slice(key).get_shape())) for key in weights.keys()}
        except (SafetensorError, OSError) as error:
            size = file.stat().st_size
            why = f"{file.name} is damaged: {error}; found {size:,} bytes, expected a whole safetensors file"
            raise _unloadable(name, why) from error
    return found


def check_weights(name: str, model: PreTrainedModel, where: str, report: Mapping[str, Iterable[str]]) -> None:
    """Refuse weights that transformers would make up or drop: random weights, or more layers than it builds."""
    missing = sorted(report["missing_keys"])
    unexpected = {key: at for key in report["unexpected_keys"] if (at := NUMBERED.match(key))}
    if not missing and not unexpected:
        return
    counts = _counts(model.state_dict())
    beyond = [key for key, at in unexpected.items() if int(at[2]) >= counts.get(at[1], 10**9)]
    layered = [key for key in missing if NUMBERED.match(key)]
    tensors = shapes(name, Path(where)) if beyond or missing else {}  # empty for a hub
    held = _counts(tensors)
    for where_layers, layers in counts.items():
        if (layered or beyond) and held.get(where_layers, layers) != layers:
            raise _of_layers(name, layers, tensors, held.get(where_layers, 0))
    if missing:
        raise ModelError(
            f"model {name!r} lacks {len(missing)} of the weights that {CONFIG} requires, such as {missing[0]!r}: "
            f"{_files(tensors)} {len(tensors)} others; {AGAIN}"
        )


def check_tokenizer(name: str, tokenizer: PreTrainedTokenizerBase, rows: int) -> None:
    """Refuse a tokenizer without words, or with more tokens than the model has rows.

    Only added tokens may be beyond the `rows` of the embedding table: some models never had rows for them.
    """
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        raise ModelError(
            f"model {name!r} has no tokenizer; expected tokenizer.json, or its family's own files, in the same folder"
        )
    if tokenizer.vocab_size > rows:
        raise ModelError(
            f"model {name!r} has the tokenizer of another model: it has {tokenizer.vocab_size:,} tokens, and the "
            f"weights have {rows:,} rows of embeddings; put the model's own tokenizer.json beside them"
        )


def _unloadable(name: str, why: str) -> ModelError:
    return ModelError(f"model {name!r} cannot be loaded: {why}; {AGAIN}")


def _of_layers(name: str, promised: int, tensors: Mapping[str, tuple[str, object]], count: int) -> ModelError:
    return _unloadable(name, f"{CONFIG} specifies {promised} layers, but {_files(tensors)} {count}")


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Return the number of layers by their path."""
    found = dict[str, int]()
    for at in filter(None, map(NUMBERED.match, names)):
        found[at[1]] = max(found.get(at[1], 0), int(at[2]) + 1)
    return found


def _files(tensors: Mapping[str, tuple[str, object]]) -> str:
    names = sorted({file for file, _ in tensors.values()})
    return f"{names[0]} holds" if len(names) == 1 else f"{len(names)} files of weights hold"
