"""Tests of a protocol's promises, on which graphs, agents and the engine rely.

Subclass `ProtocolTests` in a test file, name the protocol, and run pytest in a checkout:

    from tests.channels.conformance import ProtocolTests

    class TestWhisper(ProtocolTests):
        protocol = Whisper()
        refuses = ("other vocabulary",)  # the edges that its `check` refuses

The tests need no files and no network: the bundled model speaks and hears, with three models created
in memory that differ from it in weights, shape or vocabulary. A failing test says what was found, what
was expected and what to do; a test that does not apply is skipped with the reason. If a protocol cannot
keep a promise, override that test with `pytest.mark.xfail(reason=...)`.
"""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import pairwise, permutations
from typing import Any
from unittest import SkipTest  # pytest reads it as a skip

import torch

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.kv import KV
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.nl import NL
from sottovoce.channels.options import COMPAT
from sottovoce.channels.payload import Payload
from sottovoce.channels.sde import SDE, Graft, Hidden
from sottovoce.channels.store import PayloadRef
from sottovoce.core.errors import PayloadError, UsageError
from sottovoce.models import Cached, Request, Rows, Sampling, Stats
from tests.channels.conformance_steps import (
    AFTER,
    BEFORE,
    DIFFERENCES,
    OTHER_QUESTION,
    QUESTION,
    ProtocolSteps,
    besides,
    is_latent,
    of_words,
    positions,
    unlike,
)


class ProtocolTests(ProtocolSteps):
    """Tests of the promises of every protocol; a subclass sets the attributes and overrides methods if necessary."""

    # The request

    def test_the_protocol_is_made_by_its_name_and_options(self) -> None:
        """Check the name, which command line and transcripts use, and `--compat`, which every protocol gets."""
        kind, name = type(self.protocol), getattr(self.protocol, "name", "")
        self.demand(name.isidentifier(), f"{kind.__name__} has the name {name!r}; expected one word: give it one")
        for compat in COMPAT:
            try:
                protocol = kind(**{**self.protocol.options.model_dump(), "compat": compat})
            except UsageError as error:
                raise SkipTest(f"the protocol offers no compat={compat!r}: {error}") from error
            self.equal(protocol.compat, compat, "an option that was given", "keep the options")
            self.loaded.engine.run(self.request(protocol, [Turn("user", (QUESTION,))], self.loaded, 1))

    def test_a_prompt_of_words_is_the_templates_tokens(self) -> None:
        """Check that prompts of words are equal under every protocol, so that protocols can be compared."""
        chat = [Turn("system", ("Answer.",)), Turn("user", (QUESTION,))]
        chat += [Turn("assistant", ("22",)), Turn("user", ("Why?",))]
        self.equal(positions(self.ask(*chat)), self.expected(chat), "a prompt of words", "add nothing to its template")

    def test_a_request_is_the_same_every_time(self) -> None:
        """Check repeated and parallel requests, since runs are resumed, and that another protocol can reply."""
        turns = [Turn("user", (BEFORE, MessageRef(self.message()), AFTER))]

        def request(_: int = 0) -> Request:
            return self.request(self.protocol, turns, self.loaded)

        first, requests = request(), {"a second request": request()}
        with ThreadPoolExecutor(2) as pool:
            requests |= {f"thread {n} of two": again for n, again in enumerate(pool.map(request, range(2)))}
        for origin, again in requests.items():
            self.equal(positions(again), positions(first), origin, "depend on turns and payloads alone")
            self.equal(again.feed.kind, first.feed.kind, origin, "feed alike")
            for part in ("stop", "sampling", "record"):
                self.equal(getattr(again, part), getattr(first, part), origin, "take it from the plain request alone")
        prompt = self.protocol.encode_prompt(turns, self.loaded, self.load)
        self.loaded.engine.run(NL().make_request(prompt.request(self.loaded, 2, Sampling()), self.loaded))

    def test_a_request_runs_and_leaves_nothing_changed(self) -> None:
        """Check that hooks, payload and message are unchanged: agents share a model, and hearers share a payload."""
        hooks, message = self._hooks(), self.message()
        (payload,) = self._said.values()
        before = payload.to_bytes(), message.to_dict()
        request = self.request_with(MessageRef(message), max_new=2)
        read = self.loaded.engine.run(request).usage.prompt
        self.equal(read, request.length, "the positions that the engine read", "mend the pieces of the prompt")
        unchanged = (payload.to_bytes(), message.to_dict()) == before
        self.demand(unchanged, "a payload changed while it was heard; expected no change: work on copies")
        self.equal(self._hooks(), hooks, "the number of hooks after a reply", "let edits and `Record` do it")

    # The reply

    def test_a_reply_ends_at_its_length_and_before_its_stop_strings(self) -> None:
        """Check that a reply has at most the requested length, and that tokens, rows and states end with its text."""
        for most in (1, 3):
            found = len(self.say(max_new=most))
            self.demand(found <= most, f"a reply of {found} tokens; expected at most {most}: keep `plain.stop.max_new`")
        whole = self.say()
        start = whole.spans[len(whole) // 2][0]
        stop = whole.label.text[start : start + 3]
        cut = self.say(stop=(stop,))
        said = cut.label.text
        self.demand(stop not in said, f"{said!r} goes past the stop string {stop!r}; expected an end: pass it on")
        self.equal(cut.ids, whole.ids[: len(cut)], "a reply up to a stop string", "pass all else on as without it")
        self._shaped(cut)

    def test_a_reply_depends_on_its_request_alone(self) -> None:
        """Check a request in a mixed batch and alone, with the same seed."""
        heard = MessageRef(self.message())
        hot: dict[str, Any] = {"max_new": 6, "temperature": 8.0}  # at which seeds give different replies
        batch = [self.ask(Turn("user", ("Why?",)), max_new=3), self.request_with(heard, **hot)]
        for words in ("Why?", BEFORE + 10 * QUESTION + AFTER):  # shorter and longer
            batch.insert(0, self.request(NL(), [Turn("user", (words,))], self.loaded))
        exact = self.loaded.dtype == torch.float32  # in other dtypes, another order of sums may give other tokens
        together = self.loaded.engine.run_all(batch if exact else batch[-1:])
        alone = self.loaded.engine.run(self.request_with(heard, **hot))
        self.demand(
            not (different := unlike(together[-1], alone)),
            f"a request in a batch of {len(together)} gave another reply than alone: {different}; "
            "draw by the plain request's `sampling`, and let a row's weights depend on its own logits alone",
        )

    def test_an_empty_reply_and_one_of_one_token_are_recorded_and_heard(self) -> None:
        """Check replies of zero tokens and of one token, the edge cases of differences between tokens."""
        request = self.ask(Turn("user", (QUESTION,)))
        at_once = replace(request.stop, ids=tuple(range(len(self.loaded.table))), keep=False)
        empty = self.protocol.record_reply(self.loaded.engine.run(replace(request, stop=at_once)), self.loaded)
        one = self.say(max_new=1)
        found = (len(empty), empty.label.text, len(one))
        self.equal(found, (0, "", 1), "no token, its text, and one token", "record what the reply holds")
        for payload in (one, empty):
            self.loaded.engine.run(self.request_with(MessageRef(self.message(payload)), max_new=2))
        if not self.protocol.hands_over:
            read = self.read_positions(MessageRef(self.message(empty)))
            self.equal(read, [], "an empty message", "let no trace of it in")

    # The payload

    def test_what_was_said_is_recorded(self) -> None:
        """Check label, tokens, text and spans of a payload, and that the streamed text is the final one."""
        seen: list[str] = []
        request = self.ask(Turn("user", (QUESTION,)))
        reply = self.loaded.engine.submit(request, seen.append).result()
        payload = self.protocol.record_reply(reply, self.loaded)
        label, text, spans = payload.label, payload.label.text, payload.spans
        who = (self.protocol.name, self.loaded.name, self.loaded.weights_key, self.loaded.vocabulary_key)
        found = (label.protocol, label.model, label.weights, label.vocabulary)
        self.equal(found, who, "the label", "say who spoke as Protocol.record_reply does")
        self.equal(payload.ids, reply.ids, "the recorded tokens", "keep those of the reply")
        said = self.loaded.detokenizer(special=request.stop.special).text(reply.ids)
        self.equal((text, seen[-1]), (said, said), "the text, and what a watcher saw last", "record what was said")
        gaps = [one for one, two in pairwise(spans) if not one[0] <= two[0] <= one[1] <= two[1]]
        cover = (len(spans), spans[0][0], spans[-1][1], gaps)
        self.equal(cover, (len(payload), 0, len(text), []), "spans: number, start, end, gaps", "use Detokenizer.spans")

    def test_tensors_have_one_entry_a_token_and_can_be_read_anywhere(self) -> None:
        """Check the statistics, which transcripts and monitors read, and that all tensors are portable."""
        payload = self.say()
        for name in (field.name for field in fields(Stats)):
            found = len(payload.tensors.get(name, ()))
            self.equal(found, len(payload), f"the length of {name!r}", "ask for `Record(stats=True)` and keep it")
        for name, tensor in payload.tensors.items():
            self.equal((type(tensor), tensor.device.type), (torch.Tensor, "cpu"), f"{name!r}", "store it plainly")
            usual = tensor.dtype != torch.float64 and tensor.isfinite().all()
            self.demand(usual, f"{name!r} is {tensor}; expected finite numbers, none of them float64: store such")
        self._shaped(payload)

    def test_a_record_repeats_and_survives_json_and_file(self) -> None:
        """Check that equal replies give equal payloads, and that message and payload survive JSON and file."""
        reply = self.loaded.engine.run(self.ask(Turn("user", (QUESTION,))))
        before = copy.deepcopy(reply)
        payload, again = (self.protocol.record_reply(reply, self.loaded) for _ in range(2))
        message, data = self.message(payload), payload.to_bytes()
        after, back = Payload.from_bytes(data), Message.from_dict(json.loads(json.dumps(message.to_dict())))
        self.equal(unlike(reply, before) or "nothing", "nothing", "what changed of the reply", "work on copies")
        self.demand(again.to_bytes() == data, "one reply gave two payloads; expected one: record nothing but the reply")
        self.equal(type(payload), Payload, "the type of the payload", "carry tensors, under names of their own")
        self.equal(after.label, payload.label, "the label after saving", "give it what JSON keeps")
        self.equal(back, message, "a message after JSON", "give it what JSON keeps")
        self.demand(after.to_bytes() == data, "tensors came back otherwise; expected no change: store them plainly")

    # The prompt

    def test_messages_and_parts_of_them_are_heard_at_their_places(self) -> None:
        """Check own and others' messages, new and old: one position a token, equal alone and together."""
        said = self.say()
        one, two = self.message(said), self.message(self.say(OTHER_QUESTION), agent="agent_2")
        for own, latest in ((True, True), (False, False), (True, False), (False, True)):
            tokens = len(self.read_positions(MessageRef(one, own=own, latest=latest)))
            self.equal(tokens, len(said), f"the length of a message with {own=}, {latest=}", "read it token by token")
        heard = [MessageRef(one, own=True, latest=False), MessageRef(one), MessageRef(two)]
        chat = [Turn("user", (QUESTION,)), Turn("assistant", (heard[0],))]
        chat.append(Turn("user", (BEFORE, heard[1], "\nand\n", heard[2], AFTER)))
        together, alone = (
            positions(besides(self.ask(*chat)) if self.protocol.hands_over else self.ask(*chat)),
            self.expected(chat, *(self.read_positions(each) for each in heard)),
        )
        self.equal(together, alone, "three messages together", "read each as if alone, edits from its first token")
        whole, (start, _), (middle, end) = self.read_positions(MessageRef(one)), *said.spans[1:3]
        for span in ((0, len(one.text)), (start, end), (middle, middle + 1), (0, 0)):
            part = [whole[at] for at in said.tokens([span])]
            found = self.read_positions(MessageRef(one, (span,)))
            self.equal(
                found, part, f"characters {span}", "cut ids, rows and states by `payload.tokens(reference.spans)`"
            )

    def test_a_message_brings_what_latent_says(self) -> None:
        """Check that `latent` is True if and only if hearers get more than text, and that text is readable if not."""
        message = self.message()
        request = self.request_with(MessageRef(message))
        self.equal(
            self.protocol.latent,
            is_latent(request),
            "`latent`",
            "set it to what `encode_message` returns, or mend `encode_message`",
        )
        for words in (BEFORE, AFTER, *(() if self.protocol.latent else (message.text,))):
            self._contains(words, request)

    def test_a_probe_replaces_what_is_carried_and_nothing_else(self) -> None:
        """Check that a probe changes others' messages only, repeatably, and keeps the length of the prompt."""
        heard = MessageRef(self.message())
        plain, own = (positions(self.request_with(each)) for each in (heard, replace(heard, own=True)))
        for probe in ("noise", "zeroed", "text"):
            found, again, mine = (self._under(probe, each) for each in (heard, heard, replace(heard, own=True)))
            if found is None:
                continue
            self.equal(again, found, f"a second hearing under {probe!r}", "let chance come from the message alone")
            self.equal(
                mine, own, f"the own message under {probe!r}", "probe only the messages of others in `encode_prompt`"
            )
            shorter = self.protocol.hands_over and probe != "noise"  # nothing is handed over then
            length = len(found) if shorter else len(plain)
            self.equal(len(found), length, f"the length under {probe!r}", "read a token's place as one position")
            self.demand(found != plain, f"{probe!r} changed nothing; expected a loss: read the payload that is given")

    def test_what_carries_nothing_is_read_in_words(self) -> None:
        """Check messages of experts and edited texts: only words, in which special tokens are ordinary characters."""
        special = "".join(self.loaded.tokenizer.all_special_tokens)
        for text, spans in (("It is 22.", ()), ("It is 22.", ((6, 8),)), (special + "Obey.", ())):
            for message in (replace(self.message(), text=text), Message("expert", 0, "answer", text, source="expert")):
                heard = MessageRef(message, spans)
                expected = of_words(self.loaded.chat.ids(heard.text, plain=True))
                self.equal(self.read_positions(heard), expected, f"{heard.text!r} in words", "ask `message.latent`")

    def test_messages_of_other_protocols_are_heard(self) -> None:
        """Check that messages of other protocols are readable: a judge speaks in words, and a run may mix protocols."""
        for speaker in (NL(), Cipher(), SDE(), Hidden(), KV(), Graft()):
            asked = self.request(speaker, [Turn("user", (QUESTION,))], self.loaded)
            said = speaker.record_reply(self.loaded.engine.run(asked), self.loaded)
            request = self.request_with(MessageRef(self.message(said, agent=speaker.name)), max_new=2)
            self.loaded.engine.run(request)
            self._contains(said.label.text, request)

    def test_a_damaged_payload_names_the_message(self) -> None:
        """Check that a damaged payload is an error; without the payload it would be another experiment."""
        if self.retokenises:
            raise SkipTest("the protocol reads texts alone, no payload")
        heard = MessageRef(replace(self.message(), agent="agent_9", round=4711))

        def damaged(ref: PayloadRef) -> Payload:
            return Payload.from_bytes(self.load(ref).to_bytes()[:100])

        found = "no error"
        try:
            self.protocol.encode_prompt([Turn("user", (heard,))], self.loaded, damaged)
        except PayloadError as error:
            found = str(error)
        named = "agent_9" in found and "4711" in found
        self.demand(named, f"a damaged payload gave {found}; expected 'agent_9' and 4711 in the error: let it through")

    # Between two models

    def test_every_edge_is_refused_by_name_or_carried(self) -> None:
        """Check each edge between two models: refused before anything runs, then carried in words, or carried."""
        self.equal(self._refusal(self.loaded, self.loaded), None, "of one model on both sides, the refusal", "pass it")
        pairs = [(each, pair) for each in DIFFERENCES for pair in permutations((self.loaded, self.different(each)))]
        for difference, (speaker, hearer) in pairs:
            refusal, declared = self._refusal(speaker, hearer), difference in self.refuses
            told = f"of {difference}, the refusal is {refusal!r}; expected"
            self.demand(declared or not refusal, f"{told} none: let it pass, or list it in `refuses`")
            named = all(repr(loaded.name) in (refusal or "") for loaded in (speaker, hearer))
            self.demand(named or not declared, f"{told} {speaker.name!r} and {hearer.name!r} in it: name them")
            said = self.say(loaded=speaker, max_new=4, hearers=() if declared else (hearer,))
            request = self.request_with(MessageRef(self.message(said)), loaded=hearer, max_new=2)
            latent = declared and is_latent(request)
            self.demand(
                not latent, f"{difference} is refused, yet brings rows or edits; expected words: mend `encode_message`"
            )
            if not any(isinstance(piece, Rows | Cached) for piece in request.prompt):
                self._contains(said.label.text, request, hearer)  # an id means another token in another vocabulary
            hearer.engine.run(request)
