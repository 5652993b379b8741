"""A prompt becomes a request: by `hear` then `speak`, the same each time, with nothing changed on the way."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sottovoce.channels.conformance.compare import apart, of_words, positions
from sottovoce.channels.conformance.setting import QUESTION, Setting
from sottovoce.channels.message import Heard, Role, Turn
from sottovoce.channels.protocol import COMPAT, Protocol
from sottovoce.errors import UsageError
from sottovoce.models import ChatTurn, Request


class LoweringTests(Setting):
    """What holds for the requests of a protocol."""

    def test_the_protocol_says_what_it_is(self) -> None:
        """Command line, settings and transcripts know a protocol by these."""
        protocol = self.protocol
        if not isinstance(protocol, Protocol):
            raise AssertionError(f"`protocol` is {protocol!r}; expected an instance of Protocol")
        name = getattr(protocol, "name", "")
        if not name.isidentifier():
            raise AssertionError(
                f"{type(protocol).__name__} has the name {name!r}; expected one word, as a user types it"
            )
        self.demand(isinstance(protocol.latent, bool), f"`latent` is {protocol.latent!r}; expected True or False")
        self.demand(protocol.final_rule, "`final_rule` is empty; expected the name of a rule, e.g. 'majority'")
        for agent in range(3):
            temperature = protocol.temperature(agent, 3, 0.7)
            self.demand(0 <= temperature < 100, f"agent {agent} of 3 has temperature {temperature}; expected 0 or more")

    def test_both_choices_of_compat_give_requests_that_run(self) -> None:
        """`--compat` is given to every protocol, and a judge's words take it over."""
        for compat in COMPAT:
            try:
                protocol = replace(self.protocol, compat=compat)
            except UsageError as error:
                self.skip(f"the protocol offers no compat={compat!r}: {error}")
            request = protocol.lower([Turn("user", (QUESTION,))], self.loaded, self.load, self.speech(1))
            self.demand(protocol.compat == compat, f"compat={compat!r} became {protocol.compat!r}; keep the field")
            self.reply(request)

    def test_a_prompt_of_words_is_the_templates_tokens(self) -> None:
        """A first round reads alike under every protocol, so that they can be compared."""
        chat: list[tuple[Role, str]] = [
            ("system", "Answer."),
            ("user", QUESTION),
            ("assistant", "22"),
            ("user", "Why?"),
        ]
        found = positions(self.ask(*(Turn(role, (text,)) for role, text in chat)))
        pieces = self.loaded.chat.encode([ChatTurn(role, (text,)) for role, text in chat])
        expected = of_words([id for piece in pieces if isinstance(piece, tuple) for id in piece])
        self.demand(
            found == expected,
            f"a prompt without messages is not the template's: {apart(found, expected)}; "
            "add nothing where nothing is heard",
        )

    def test_lower_is_hear_then_speak(self) -> None:
        """The two are called apart, as a judge hears by one protocol and speaks by another."""
        turns = [Turn("user", (QUESTION, Heard(self.message())))]
        lowered = self.protocol.lower(turns, self.loaded, self.load, self.speech())
        prompt = self.protocol.hear(turns, self.loaded, self.load)
        self._same(lowered, self.protocol.speak(prompt, self.loaded, self.speech()), "`hear` then `speak`", "`lower`")

    def test_equal_prompts_give_equal_requests(self) -> None:
        """A run that is resumed repeats its requests, and a prefix that was read is found by its ids and tensors."""
        heard = Heard(self.message())
        self._same(self.hearing(heard), self.hearing(heard), "a second lowering", "the first")

    def test_the_thread_makes_no_difference(self) -> None:
        """LangGraph runs the agents of a round in parallel threads."""
        heard, together = Heard(self.message()), threading.Barrier(2)

        def lower(_: int) -> Request:
            together.wait(timeout=60)
            return self.hearing(heard)

        with ThreadPoolExecutor(2) as pool:
            for lowered in pool.map(lower, range(2)):
                self._same(lowered, self.hearing(heard), "one of two threads", "a single one")

    def test_lowering_changes_neither_message_nor_payload(self) -> None:
        """One payload in memory serves all that hear the message."""
        message = self.message()
        payload, before = self.payload_of(message), message.to_dict()
        data = payload.to_bytes()
        turns = [Turn("user", (QUESTION, Heard(message)))]
        self.reply(self.protocol.lower(turns, self.loaded, lambda ref: payload, self.speech(2)))
        self.demand(
            payload.to_bytes() == data and message.to_dict() == before,
            "a message or its payload changed while it was heard; other agents hear it too: work on copies",
        )

    def test_a_request_runs_and_its_positions_count(self) -> None:
        """The length of a prompt is held against the model's context before it runs."""
        request = self.hearing(Heard(self.message()), speech=self.speech(2))
        read = self.reply(request).usage.prompt
        self.demand(read == request.length, f"the engine read {read} positions of a prompt of {request.length}")

    def test_a_request_leaves_no_hook(self) -> None:
        """Agents share one model: what stays on it changes the replies of others."""
        before = self._hooks()
        self.message(self.say(speech=self.speech(2)).payload)
        self.reply(self.hearing(Heard(self.message()), speech=self.speech(2)))
        left = self._hooks() - before
        self.demand(not left, f"{left} hooks stay on the model after a reply; let edits and `Record` do it")

    def _hooks(self) -> int:
        modules = list(self.loaded.model.modules())
        return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in modules)

    def _same(self, found: Request, expected: Request, one: str, other: str) -> None:
        parted = apart(positions(found), positions(expected))
        self.demand(parted == "no difference", f"{one} reads otherwise than {other}: {parted}")
        for what in ("stop", "sampling", "record"):
            left, right = getattr(found, what), getattr(expected, what)
            self.demand(left == right, f"{one} has {left}, {other} {right}; take it from `speech` alone")
        feeds = [(request.feed.kind, [table.key for table in request.feed.tables]) for request in (found, expected)]
        self.demand(feeds[0] == feeds[1], f"{one} feeds {feeds[0]}, {other} {feeds[1]}")
