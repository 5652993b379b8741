"""Tiny models that think before they reply: each token of their thoughts and of their text leads to the next one."""

from __future__ import annotations

from functools import cache

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
