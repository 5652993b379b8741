"""Templates of packs and of model folders that anybody may have written: refused, or rendered within bounds."""

from __future__ import annotations

import random

from sottovoce.models.huggingface.chat import ChatTemplate
from sottovoce.prompts.render import Prompts
from tests.chats import tokenizer_with
from tests.fuzz.cases import OTHERS, drawn, held, template, text

LONGEST = 20_000_000
"""Characters of what is rendered."""


@drawn("packs")
def test_a_pack_is_rendered_or_refused_in_one_line(seeds: range) -> None:
    prompts = Prompts()

    def case(rng: random.Random) -> None:
        prompts._check("shared/question", template(rng))  # as a pack's file is; reading all of ours takes long
        made = prompts.render("shared/question", question="q" * rng.choice([1, 5000]), choices=[], form="Say N.")
        assert sum(len(str(part)) for part in made) <= LONGEST

    held("packs", seeds, case)


@drawn("templates")
def test_a_chat_template_is_rendered_or_refused_in_one_line(seeds: range) -> None:
    def case(rng: random.Random) -> None:
        written = template(rng, *OTHERS).replace("question", "messages[0].content")
        turns = [{"role": "user", "content": rng.choice([text(rng), "q" * 5000])}]
        tokenizer = tokenizer_with(written)
        assert len(ChatTemplate(tokenizer)._render(turns, True)) <= LONGEST

    held("templates", seeds, case)
