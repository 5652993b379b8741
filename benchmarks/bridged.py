"""`python -m benchmarks.bridged`: what CIPHER loses over a bridge between two vocabularies.

A model sends mean embeddings to itself with a tokenizer that lacks a share of its merged tokens, so that the true
message is known: its ordinary rows. The hearer continues with the twelve tokens that it generates greedily after the
true message; its distributions at these are compared after the true message, the bridge, and words. Then the model and
the bundled one send messages to each other; there is no true message, so bridge and words are compared.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from benchmarks.degenerate import mixed_questions
from sottovoce.channels import bridge
from sottovoce.channels.cipher import Cipher
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.nl import NL
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Prompt, Protocol, Speech
from sottovoce.channels.store import PayloadStore
from sottovoce.models import Ids, LoadedModel, Piece, Request, Rows, Stop, load
from sottovoce.models.huggingface.chat import ChatTemplate
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.prompts.render import Prompts
from sottovoce.report.tables import table

LONGEST, COMPARED = 48, 12  # tokens of a message, and of the hearer's continuation
LACKING = (0.05, 0.2, 0.5)
HEAD = "temperature | {} | tokens shared | mass shared | heard as words | {}"
OF_TRUTH = (
    "from the truth: bridge (nats, variation) | words | words by the speaker's tokens | bridge is nearer than words"
)
CROSS = Cipher(bridge=True)


class Distance(NamedTuple):
    """The distance of one distribution from another, averaged over positions."""

    nats: float
    """Kullback-Leibler divergence of the other from the first."""
    variation: float
    """Half the sum of absolute differences of probabilities."""


def lacking(loaded: LoadedModel, share: float) -> LoadedModel:
    """Return the same weights and ids with a tokenizer that lacks a random share of its merged tokens."""
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
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(backend)),
        eos_token=like.eos_token,
        bos_token=like.bos_token,
        pad_token=like.pad_token,
        chat_template=like.chat_template,
    )
    return replace(loaded, name=f"lacks {share:.0%}", tokenizer=tokenizer, chat=ChatTemplate(tokenizer))


def spoken(
    loaded: LoadedModel, questions: Sequence[Question], hearers: Sequence[LoadedModel], t: float
) -> list[Payload]:
    """Return the payload of one reply to each question, with mean embeddings over the bridges to all hearers."""
    sampling, requests = replace(loaded.sampling, temperature=t), list[Request]()
    for question in questions:
        prompt = CROSS.encode_prompt(
            PromptBuilder(Prompts(), question, None, answers="sentence").independent(), loaded, lambda ref: ref.load()
        )
        requests.append(CROSS.make_request(prompt, loaded, Speech(LONGEST, sampling, hearers=tuple(hearers))))
    said = [CROSS.record_reply(reply, loaded) for reply in loaded.engine.run_all(requests)]
    return [payload for payload in said if len(payload)]


def prompt_of_hearer(protocol: Protocol, payload: Payload, hearer: LoadedModel) -> Prompt:
    """Return the prompt of an agent that hears a message."""
    with TemporaryDirectory() as folder:
        message = Message("agent_1", 0, "answer", payload.label.text, payload=PayloadStore(folder).put(payload))
    turn = Turn("user", ("Another agent answered:\n", MessageRef(message), "\n\nWhat is right? Say why."))
    return protocol.encode_prompt([turn], hearer, lambda ref: payload)


def instead(prompt: Prompt, message: Piece) -> Prompt:
    """Return a prompt with its latent piece replaced by another form of the message."""
    return Prompt(tuple(message if isinstance(piece, Rows) else piece for piece in prompt.pieces))


def said_after(prompts: Sequence[Prompt], hearer: LoadedModel) -> list[tuple[int, ...]]:
    """Return the token ids that a hearer generates greedily after each prompt."""
    replies = hearer.engine.run_all([Request(each.pieces, Stop(COMPARED)) for each in prompts])
    return [reply.ids for reply in replies]


def distributions(prompt: Prompt, said: tuple[int, ...], hearer: LoadedModel) -> torch.Tensor:
    """Return the hearer's log-probabilities (COMPARED, V) at the tokens of its continuation."""
    rows = hearer.table.rows
    pieces = [rows[list(each.ids)] if isinstance(each, Ids) else each.rows for each in (*prompt.pieces, Ids(said[:-1]))]
    with torch.inference_mode():
        logits: torch.Tensor = hearer.model(inputs_embeds=torch.cat(pieces)[None], logits_to_keep=len(said)).logits[0]
    return logits[:, : len(hearer.table)].float().log_softmax(-1)


def distance(first: torch.Tensor, second: torch.Tensor) -> Distance:
    """Return the distance of two arrays of log-probabilities (n, V)."""
    nats = (first.exp() * (first - second)).sum(-1).mean()
    return Distance(max(float(nats), 0.0), float((first.exp() - second.exp()).abs().sum(-1).mean()) / 2)


def formatted(distances: Sequence[Distance]) -> str:
    """Format the means over messages."""
    return f"{fmean(each.nats for each in distances):.4f}, {fmean(each.variation for each in distances):.3f}"


def losses(payloads: Sequence[Payload], speaker: LoadedModel, hearer: LoadedModel) -> list[str]:
    """Return cells for one bridge: the shares of tokens and of mass it keeps, and of positions heard as words."""
    name = bridge.name(speaker.vocabulary_key, hearer)
    alone = [replace(each, tensors={**_others(each), name: each.tensors[name]}) for each in payloads]
    distances = [bridge.measured(each) for each in alone]
    share = bridge.between(speaker, hearer).share
    return [f"{share:.1%}", *(f"{fmean(each[key] for each in distances):.1%}" for key in ("shared_mass", "as_words"))]


def _others(payload: Payload) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in payload.tensors.items() if not name.startswith(bridge.BRIDGED)}


def against_truth(payloads: Sequence[Payload], speaker: LoadedModel, hearer: LoadedModel) -> list[str]:
    """Return cells: the distance of bridge and words from the true message, for a hearer with the speaker's weights."""
    crossed = [prompt_of_hearer(CROSS, each, hearer) for each in payloads]
    words = [prompt_of_hearer(NL(), each, hearer) for each in payloads]
    rows = [each.tensors[f"rows.{speaker.table.key}"] for each in payloads]
    truth = [instead(prompt, Rows(each)) for prompt, each in zip(crossed, rows, strict=True)]
    tokens = [instead(prompt, Ids(each.ids)) for prompt, each in zip(crossed, payloads, strict=True)]
    distances = list[list[Distance]]()
    for *prompts, said in zip(truth, crossed, words, tokens, said_after(truth, hearer), strict=True):
        first, *others = (distributions(prompt, said, hearer) for prompt in prompts)
        distances.append([distance(first, second) for second in others])
    nearer = sum(by_bridge.nats < by_words.nats for by_bridge, by_words, _ in distances)
    return [*(formatted(each) for each in zip(*distances, strict=True)), f"{nearer} of {len(distances)}"]


def against_words(payloads: Sequence[Payload], hearer: LoadedModel) -> str:
    """Return the distance of words from the bridge, for any hearer."""
    crossed = [prompt_of_hearer(CROSS, each, hearer) for each in payloads]
    words = [prompt_of_hearer(NL(), each, hearer) for each in payloads]
    each = zip(crossed, words, said_after(crossed, hearer), strict=True)
    return formatted(
        [distance(*(distributions(prompt, said, hearer) for prompt in (first, second))) for first, second, said in each]
    )


def main() -> None:
    """Generate messages, compare them, and print the tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.bridged", description=__doc__)
    parser.add_argument("-n", type=int, default=10, help="messages per model")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--temperature", type=float, nargs="*", default=[0.2, 0.35])
    given = parser.parse_args()
    model, bundled = load(given.model), load()
    hearers, rows, between = [lacking(model, share) for share in LACKING], list[list[str]](), list[list[str]]()
    for t in given.temperature:
        payloads = spoken(model, mixed_questions(given.model, given.n), [*hearers, bundled], t)
        for hearer in hearers:
            row = [f"{t:g}", hearer.name, *losses(payloads, model, hearer), *against_truth(payloads, model, hearer)]
            rows.append(row)
            print(row, f"{time.process_time():.0f} s", flush=True)
        back = spoken(bundled, mixed_questions("bundled", given.n), [model], t)
        for speaker, hearer, said in ((model, bundled, payloads), (bundled, model, back)):
            names = f"{speaker.name} to {hearer.name}"
            between.append([f"{t:g}", names, *losses(said, speaker, hearer), against_words(said, hearer)])
            print(between[-1], f"{time.process_time():.0f} s", flush=True)
    print(table(HEAD.format("the hearer", OF_TRUTH), rows))
    print(table(HEAD.format("speaker and hearer", "words from the bridge (nats, variation)"), between))


if __name__ == "__main__":
    main()
