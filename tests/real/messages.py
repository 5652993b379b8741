"""Messages of a real model: replies to twenty questions of five kinds, and a bridge whose true message is known."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import cast

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Prompt, Protocol
from sottovoce.channels.store import PayloadStore
from sottovoce.models import Ids, LoadedModel, Request
from sottovoce.models.huggingface.chat import ChatTemplate
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.prompts.render import Prompts

LABELS = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]
ASKED = """number|A shelf holds 3 boxes with 4 cups each. How many cups are on the shelf?
number|Ilse has 19 apples and gives 5 away. How many apples does she have left?
number|What is 3 + 6 + 14?
number|A pencil costs 4 euros and a book costs 20 euros. How much do both cost?
option|What do cows drink as calves?|tea|milk|coffee|juice
option|What is frozen water called?|ice|oil|steam|sand
option|Which of these is a musical instrument?|violin|ladder|carpet|bucket
option|Which of these is a colour?|bread|table|shoe|blue
yes_no|Is this true? Berlin is in Spain.
yes_no|Is this true? Paris is in France.
yes_no|Is this true? Spiders have six legs.
yes_no|Is this true? Spiders have six legs.
label|Evidence: Ada lives in a small house. Claim: Ada speaks French.
label|Evidence: Work on the bridge ended in 1932. Claim: The bridge was built in 1932.
label|Evidence: Mira was born in 1970. Claim: Mira owns a boat.
label|Evidence: The library is open every day of the week. Claim: The library is closed on Monday.
text|On which day of the week is market day in the town where Petra Pike lives?
text|In which country is Tokyo?
text|On which river does the town where Mira Sorel was born lie?
text|Which planet is known as the red planet?"""
DOCUMENTS = {
    "Petra Pike": ["Petra Pike lives in Fenwick.", "Market day in Fenwick is Thursday."],
    "Mira Sorel": ["Mira Sorel was born in Fenwick.", "Fenwick lies on the river Velda."],
}


def mixed_questions() -> list[Question]:
    """Four questions of each kind."""
    return [_question(*line.split("|")) for line in ASKED.splitlines()]


def _question(kind: str, text: str, *choices: str) -> Question:
    if kind == "label":
        text, choices = f"{text} What does the evidence say about the claim?", tuple(LABELS)
    documents = next((lines for name, lines in DOCUMENTS.items() if name in text), None)
    fields = {"question": text, "kind": kind, "choices": list(choices) or None, "documents": documents}
    return cast(Question, {name: value for name, value in fields.items() if value is not None})


def spoken(
    loaded: LoadedModel,
    questions: Sequence[Question],
    protocol: Protocol,
    temperature: float,
    longest: int = 96,
    hearers: Sequence[LoadedModel] = (),
) -> list[Payload]:
    """The payload of one reply to each question."""
    own = replace(loaded.sampling, temperature=temperature)

    def request(seed: int, question: Question) -> Request:
        turns = PromptBuilder(Prompts(), question, None, answers="sentence").independent()
        prompt = protocol.encode_prompt(turns, loaded, lambda ref: ref.load())
        return protocol.make_request(prompt.request(loaded, longest, replace(own, seed=seed)), loaded, hearers)

    replies = loaded.engine.run_all([request(seed, question) for seed, question in enumerate(questions)])
    return [protocol.record_reply(reply, loaded) for reply in replies]


def lacking(loaded: LoadedModel, share: float) -> LoadedModel:
    """The same weights and ids with a tokenizer that lacks a random share of its merged tokens."""
    backend = json.loads(loaded.tokenizer.backend_tokenizer.to_str())
    vocabulary, merges = backend["model"]["vocab"], backend["model"]["merges"]
    made_by_merges = sorted({"".join(pair) for pair in merges})
    gone = {*random.Random(0).sample(made_by_merges, round(share * len(made_by_merges)))}
    # Ids keep their places under spellings that never occur, so that rows keep their order.
    backend["model"]["vocab"] = {
        f"{token}\u0100{id}" if token in gone else token: id for token, id in vocabulary.items()
    }
    backend["model"]["merges"] = [pair for pair in merges if not {*pair, "".join(pair)} & gone]
    like = loaded.tokenizer
    marks = {name: getattr(like, name) for name in ("eos_token", "bos_token", "pad_token", "chat_template")}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(backend)), **marks)
    return replace(loaded, name=f"lacks {share:.0%}", tokenizer=tokenizer, chat=ChatTemplate(tokenizer))


def prompt_of_hearer(protocol: Protocol, payload: Payload, hearer: LoadedModel) -> Prompt:
    """The prompt of an agent that hears a message."""
    with TemporaryDirectory() as folder:
        message = Message("agent_1", 0, "answer", payload.label.text, payload=PayloadStore(folder).put(payload))
    turn = Turn("user", ("Another agent answered:\n", MessageRef(message), "\n\nWhat is right? Say why."))
    return protocol.encode_prompt([turn], hearer, lambda ref: payload)


def distributions(prompt: Prompt, said: tuple[int, ...], hearer: LoadedModel) -> torch.Tensor:
    """The hearer's log-probabilities (len(said), V) at the tokens of a continuation."""
    rows = hearer.table.rows
    pieces = [rows[list(each.ids)] if isinstance(each, Ids) else each.rows for each in (*prompt.pieces, Ids(said[:-1]))]  # type: ignore[union-attr]
    with torch.inference_mode():
        logits: torch.Tensor = hearer.model(inputs_embeds=torch.cat(pieces)[None], logits_to_keep=len(said)).logits[0]
    return logits[:, : len(hearer.table)].float().log_softmax(-1)


def divergence(first: torch.Tensor, second: torch.Tensor) -> float:
    """The Kullback-Leibler divergence of the second from the first in nats, averaged over positions."""
    return float((first.exp() * (first - second)).sum(-1).mean())
