"""Models that think before they reply.

Each token of the thoughts and of the text of the local ones leads to the next one; the hosted one has a script.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.bounds import MOST_TOKENS
from sottovoce.models import LoadedModel, assemble
from tests.chats import QWEN_3, tokenizer_with
from tests.support import VOCABULARY, reciting_model

GAP = "\n\n"
THOUGHTS, TEXT = "12*8=96", "Answer: 5."
"""What they write by default; no token stands in both, since a token leads to one other."""
R1 = QWEN_3.partition("{% if enable_thinking")[0] + "<think>\n{% endif %}"
"""A template that opens the block, without a switch."""
HARMONY = (
    "{% for message in messages %}<|start|>{{ message.role }}"
    "{{ '<|channel|>final' if message.role == 'assistant' else '' }}<|message|>{{ message.content }}<|end|>{% endfor %}"
    "{# '<|channel|>analysis' is not sent back #}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)


@cache
def thinker(
    thoughts: str = THOUGHTS, text: str = TEXT, template: str = QWEN_3, *, closes: bool = True, marks: str = "think"
) -> LoadedModel:
    """A loaded model that thinks `thoughts`, which it ends or writes again and again, and then says `text`."""
    tokenizer = tokenizer_with(template, bos=False)
    tokenizer.add_tokens([f"<{marks}>", f"</{marks}>", GAP])
    end, gap = (tokenizer.get_vocab()[each] for each in (f"</{marks}>", GAP))
    (newline,) = tokenizer("\n", add_special_tokens=False).input_ids
    thought, said = (list(tokenizer(each, add_special_tokens=False).input_ids) for each in (thoughts, text))
    model = reciting_model(
        [newline, *thought, *([end] if closes else thought[:1])],
        [gap, *said, tokenizer.eos_token_id],
        vocab_size=VOCABULARY + 3,
    )
    return assemble(f"thinking {thoughts!r}", model, tokenizer)


@cache
def harmony() -> LoadedModel:
    """A loaded model with harmony's channels, which writes the same in both of them."""
    tokenizer = tokenizer_with(HARMONY, bos=False)
    marks = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "analysis", "final", "assistant"]
    tokenizer.add_tokens(marks, special_tokens=True)
    tokenizer.eos_token = "<|return|>"
    message, end = (tokenizer.get_vocab()[each] for each in ("<|message|>", "<|end|>"))
    said = tokenizer(THOUGHTS, add_special_tokens=False).input_ids
    return assemble("harmony", reciting_model([message, *said, end], vocab_size=VOCABULARY + len(marks)), tokenizer)


class Counting(ScriptedChatModel):
    """A hosted model that writes its script behind `thoughts` tokens of thoughts, and counts both against its limit."""

    hooked: bool = False
    max_tokens: int | None = 512
    thoughts: int = 300
    inline: str = ""
    """The text in which a thought and a reply stand, if thoughts have no field of their own."""
    sent: list[tuple[int | None, Any]] = Field(default=[])
    """The limit and the stop strings of each call."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        self.sent.append((self.max_tokens, stop))
        limit = self.max_tokens if self.max_tokens is not None else MOST_TOKENS
        agent = (run_manager.metadata or {}).get("agent", "")
        queue = self.replies[agent if agent in self.replies else ""]
        words = queue[0].split(" ")
        room = limit - self.thoughts
        whole = len(words) <= room
        text = queue.pop(0) if whole else " ".join(words[: max(room, 0)])
        field = {} if self.inline or not self.thoughts else {"reasoning_content": "Hm."}
        if self.inline:
            text = self.inline.format("Hm.", text) if room > 0 else self.inline.partition("{1}")[0].format("Hm.")[:9]
        used = min(limit, self.thoughts)
        usage = {"input_tokens": 9, "output_tokens": min(limit, self.thoughts + len(words)), "total_tokens": 0}
        message = AIMessage(
            text,
            additional_kwargs=field,
            response_metadata={"finish_reason": "stop" if whole else "length"},
            usage_metadata={**usage, "output_token_details": {"reasoning": used}},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])
