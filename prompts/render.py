"""Prompt files with named slots, rendered into the parts of a turn.

A prompt file is a jinja2 template whose first line declares its slots in a comment. A slot with a
message reference does not become text here: the rendered turn contains the message itself, so that
each protocol can encode it in its own way. A prompt pack is a user's folder with the same layout; a
file in it replaces ours, and may use the slots that ours declares.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sottovoce.channels.message import MessageRef, Part
from sottovoce.core.errors import PromptError, nearest
from sottovoce.core.files import leads_out, text_of
from sottovoce.prompts import SHIPPED

BUILT_IN = Path(__file__).parent
DECLARED = re.compile(r"\A\{# slots:(.*?)-?#\}")
MESSAGES = {"others", "statements", "summary", "trajectory", "viewpoints"}
"""Slots of other agents' messages."""
# Private-use characters mark a heard message while jinja2 renders; a text that contains them is refused.
MARK = re.compile("\ue000(\\d+)\ue001")
ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
ESCAPED = "\\ue000"
"""The beginning of a mark in the `repr` of a list."""


class Prompts:
    """The prompt files in use: the files of a user's pack, then ours."""

    def __init__(self, pack: Path | None = None, own: Mapping[str, Path] = MappingProxyType({})) -> None:
        """Read and check all files, so that a misspelled slot never stops a run halfway.

        `own` maps the prefix of prompt names to the folder of a scheme's own prompts.

        Raises:
            PromptError: the pack is not a folder, or a file in it is unknown or uses an unknown slot.
        """
        self._texts = dict(_shipped())
        for name, folder in own.items():
            self._texts |= _own_files(name, folder)
        self._files = dict[str, str]()
        if pack is not None:
            self._read_pack(pack)

    def names(self) -> list[str]:
        """Return the names of all prompts, `folder/file` without the suffix."""
        return sorted(self._texts)

    def replaces(self, name: str) -> bool:
        """Return whether the pack has a prompt of this name."""
        return name in self._files

    def render(self, name: str, **slots: Any) -> tuple[Part, ...]:  # Any: a slot takes text, lists, messages
        """Return the prompt as text and heard messages, in order.

        Raises:
            PromptError: the prompt is unknown, or a slot that it uses is missing.
        """
        if name not in self._texts:
            raise PromptError(nearest("prompt", name, self.names()))
        messages: list[MessageRef] = []
        marked = {key: _marked(value, messages) for key, value in slots.items()}
        try:
            text = _compiled(self._texts[name]).render(marked)
            if name in self._files:
                text.encode()  # raises on half a character, which a pack may write but no tokenizer accepts
            parts = _split(text.strip("\n"), messages)
        except Exception as error:  # any error of a template's expressions
            of = f" (prompt file {self._files[name]!r})" if name in self._files else ""
            raise PromptError(f"prompt {name!r} cannot be rendered: {error}{of}") from error
        if ESCAPED in text and not any(ESCAPED in str(value) for value in slots.values() if isinstance(value, str)):
            raise PromptError(
                f"prompt {name!r} prints a list of messages as one value; loop over it, as the default prompt does"
            )
        return parts

    def digest(self, folders: Collection[str] = ()) -> str:
        """Return the sha256 of names and texts, of all prompts or of those in these folders."""
        names = [name for name in self.names() if not folders or name.partition("/")[0] in folders]
        lines = "".join(f"{name}\n{self._texts[name]}\n" for name in names)
        return hashlib.sha256(lines.encode()).hexdigest()

    def _read_pack(self, pack: Path) -> None:
        if not pack.is_dir():
            shipped = "or a pack that ships: paper, bundled, paper/madra, ..."
            raise PromptError(
                f"prompt pack {str(pack)!r} is not a folder; give one with files like shared/question.md, {shipped}"
            )
        files = _files(pack)
        if not files:
            raise PromptError(f"prompt pack {str(pack)!r} contains no .md file; expected e.g. shared/question.md")
        for name, text in files.items():
            self._check(name, text)
            self._files[name] = str(pack / f"{name}.md")
        self._texts |= files

    def _check(self, name: str, text: str) -> None:
        if name not in self._texts:
            raise PromptError(nearest("prompt file in the pack:", f"{name}.md", self.names()))
        try:
            _compiled(text)
            used = meta.find_undeclared_variables(ENVIRONMENT.parse(text)) - ENVIRONMENT.globals.keys()
        except (TemplateError, SyntaxError, RecursionError, MemoryError) as error:  # deep nests break Python's compiler
            why = error.message if isinstance(error, TemplateError) else f"it is nested too deep ({error})"
            raise PromptError(f"prompt file '{name}.md' of the pack is not a template: {why}") from error
        declared = DECLARED.match(self._texts[name])
        assert declared, "every built-in prompt declares its slots in its first line"
        slots = {slot.strip() for slot in declared[1].split(",") if slot.strip()}
        for slot in sorted(used - slots):
            raise PromptError(f"{nearest('slot', slot, sorted(slots))} (prompt file '{name}.md')")
        for slot in sorted((MESSAGES & slots) - used):
            raise PromptError(
                f"prompt file '{name}.md' of the pack does not use the slot {slot!r}, so messages would be lost; add it"
            )


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Template:
    """Return a compiled prompt. All discussions share it: compiling the bundled prompts takes a quarter of a second."""
    return ENVIRONMENT.from_string(text)


@cache
def _shipped() -> Mapping[str, str]:
    """Return the texts of our own prompts by name; they are files of this package and do not change."""
    return MappingProxyType(_files(BUILT_IN))


def _files(folder: Path) -> dict[str, str]:
    built_in = folder == BUILT_IN
    texts = dict[str, str]()
    for path in sorted(folder.rglob("*.md")):
        if path.name == "README.md" or (built_in and SHIPPED in path.parents):
            continue
        name = f"prompt file {str(path)!r}"
        if not path.is_file():
            raise PromptError(f"{name} is not a file; expected the text of a prompt")
        if leads_out(path, folder):  # else any file of this machine could come into a prompt
            raise PromptError(f"{name} is a link that leads out of its folder; put a copy there")
        try:
            texts[path.relative_to(folder).with_suffix("").as_posix()] = text_of(path)
        except OSError as error:
            raise PromptError(f"{name} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise PromptError(f"{name} is not UTF-8: {error.reason} at byte {error.start}") from error
    return texts


def _own_files(name: str, folder: Path) -> dict[str, str]:
    """Return the prompts of another package's scheme, under the scheme's name."""
    files = _files(folder)
    if not files:
        raise PromptError(f"scheme {name!r} names {str(folder)!r} as its prompt folder, which has no .md file; add one")
    for file, text in files.items():
        if not DECLARED.match(text):
            raise PromptError(f"prompt '{folder / file}.md' declares no slots; begin it with {{# slots: ... #}}")
        try:
            _compiled(text)
        except TemplateError as error:
            raise PromptError(f"prompt '{folder / file}.md' is not a template: {error.message}") from error
    return {f"{name}/{file}": text for file, text in files.items()}


def _marked(value: Any, messages: list[MessageRef]) -> Any:  # Any: see render
    if isinstance(value, MessageRef):
        messages.append(value)
        return f"\ue000{len(messages) - 1}\ue001"
    if isinstance(value, (list, tuple)):
        return [_marked(item, messages) for item in value]
    if isinstance(value, str) and MARK.search(value):
        raise PromptError("a prompt's text contains U+E000, digits and U+E001, which mark messages; remove them")
    return value


def without_marks(text: str) -> str:
    """Return a model's text without the characters that mark heard messages."""
    return text.replace("\ue000", "").replace("\ue001", "")


def _split(text: str, messages: list[MessageRef]) -> tuple[Part, ...]:
    pieces = MARK.split(text)  # text, index, text, index, ..., text
    by_index = {str(i): message for i, message in enumerate(messages)}
    if not by_index.keys() >= {*pieces[1::2]}:
        raise TemplateError("it writes U+E000, digits and U+E001, which mark messages; remove them")
    parts: list[Part] = [by_index[piece] if i % 2 else piece for i, piece in enumerate(pieces)]
    return tuple(part for part in parts if part != "")
