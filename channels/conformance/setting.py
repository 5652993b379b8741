"""What a conformance test stands on: the protocol, the models, and words for asking, speaking and hearing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn
from unittest import SkipTest  # pytest reads it as a skip

from sottovoce.channels.conformance import loaded_models
from sottovoce.channels.conformance.compare import Position, apart, misfit, of_words, positions
from sottovoce.channels.conformance.loaded_models import Difference
from sottovoce.channels.message import Heard, Message, Part, PayloadRef, Turn
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Protocol, Speech
from sottovoce.errors import SottovoceError
from sottovoce.models import ChatTurn, Ids, LoadedModel, Reply, Request, Sampling

QUESTION, OTHER_QUESTION = "What is 14 + 3 * 5 - 7?", "What is 8 * 9 + 1?"
BEFORE, AFTER = "Another agent answered:\n", "\nWhat is right?"
WORDS = 8  # tokens that an agent of these tests may say
WARM = 1.5  # the bundled model is sure of sums: warm enough for means that are no table rows
ENOUGH = 4  # tokens that a message needs so that a part of it can be heard


@dataclass(frozen=True, eq=False)
class Spoken:
    """One reply: what was asked, what came, and what was recorded of it."""

    request: Request
    reply: Reply
    payload: Payload


class Setting:
    """The attributes that a subclass of `ProtocolTests` sets, and the steps that its tests are made of."""

    refuses: Collection[Difference] = ()
    """Between which models `check` refuses an edge, by how the hearer differs from the speaker."""
    retokenises: bool = False
    """True where a heard message and the words around it are made tokens of together, as text (nl's `reference`)."""

    @property
    def protocol(self) -> Protocol:
        """The protocol under test; a subclass must set it."""
        raise NotImplementedError(f"{type(self).__name__} names no protocol; write `protocol = YourProtocol()` in it")

    @property
    def loaded(self) -> LoadedModel:
        """The model that speaks and hears; the bundled one."""
        return loaded_models.bundled()

    def other(self, difference: Difference) -> LoadedModel:
        """A model that differs from `loaded model`; to be overridden together with it."""
        return loaded_models.other(difference)

    # Speaking

    def ask(self, *turns: Turn, loaded: LoadedModel | None = None, speech: Speech | None = None) -> Request:
        """Lower a chat, and see that the request fits its model."""
        loaded = loaded or self.loaded
        request = self.protocol.lower(turns, loaded, self.load, speech or self.speech())
        self.demand(not (wrong := misfit(request, loaded)), f"{wrong}; mend `read` (or `hear`)")
        return request

    def speech(
        self,
        max_new: int = WORDS,
        *,
        temperature: float = WARM,
        stop: tuple[str, ...] = (),
        hearers: tuple[LoadedModel, ...] = (),
    ) -> Speech:
        """How a reply is to be spoken: sampled, with a fixed seed."""
        return Speech(max_new, Sampling(temperature, seed=7), stop, hearers)

    def reply(self, request: Request, loaded: LoadedModel | None = None) -> Reply:
        """Run one request."""
        try:
            return (loaded or self.loaded).engine.run(request)
        except SottovoceError as error:
            raise AssertionError(f"{self.protocol.name}: the engine refused a request: {error}") from error

    def say(
        self, question: str = QUESTION, *, loaded: LoadedModel | None = None, speech: Speech | None = None
    ) -> Spoken:
        """Ask, run, record."""
        request = self.ask(Turn("user", (question,)), loaded=loaded, speech=speech)
        reply = self.reply(request, loaded)
        return Spoken(request, reply, self.protocol.record(reply, loaded or self.loaded))

    def enough(self, payload: Payload) -> Payload:
        """See that a message has tokens to cut."""
        self.demand(
            len(payload) >= ENOUGH,
            f"{self.loaded.name!r} said {len(payload)} tokens to {QUESTION!r}; the tests need {ENOUGH}: "
            "give another `loaded model`",
        )
        return payload

    # Hearing

    @cached_property
    def _files(self) -> dict[str, bytes]:
        return {}

    def load(self, ref: PayloadRef) -> Payload:
        """Read a payload anew from the bytes of its file, as another process would."""
        return Payload.from_bytes(self._files[ref.sha256])

    def message(self, payload: Payload | None = None, *, agent: str = "agent_1", round: int = 0) -> Message:
        """A message whose payload can be loaded; of a reply to the usual question if none is given."""
        if payload is None:
            payload = self.enough(self.say().payload)
        data = payload.to_bytes()
        ref = payload.reference(data)
        self._files[ref.sha256] = data
        return Message(agent, round, "answer", payload.label.text, payload=ref)

    def payload_of(self, message: Message) -> Payload:
        """What lies under a message."""
        assert message.payload is not None, "message() gives one"
        return self.load(message.payload)

    def hearing(self, *parts: Part, loaded: LoadedModel | None = None, speech: Speech | None = None) -> Request:
        """The request of an agent that reads `parts` between words."""
        return self.ask(Turn("user", (BEFORE, *parts, AFTER)), loaded=loaded, speech=speech)

    def heard(self, part: Heard, *, loaded: LoadedModel | None = None) -> list[Position]:
        """What a model reads in the place of a heard message, once the words around it are seen to be untouched."""
        if self.retokenises:
            self.skip("the protocol makes tokens of a message and the words around it together")
        found = positions(self.hearing(part, loaded=loaded))
        before, after = (of_words(ids) for ids in self.around(loaded or self.loaded))
        end = len(found) - len(after)
        for where, side, words in (("before", found[: len(before)], before), ("after", found[end:], after)):
            self.demand(
                side == words,
                f"the words {where} a heard message changed: {apart(side, words)}; "
                "leave them as the template gives them, and let edits count from the message's first token",
            )
        return found[len(before) : end]

    def around(self, loaded: LoadedModel) -> tuple[Sequence[int], Sequence[int]]:
        """The template's tokens before and after the place of a heard message."""
        pieces = loaded.chat.encode([ChatTurn("user", (BEFORE, 0, AFTER))])
        hole = pieces.index(0)
        return _flat(pieces[:hole]), _flat(pieces[hole + 1 :])

    def ids(self, request: Request) -> list[int]:
        """Tokens of a prompt, the nearest ones of its rows among them."""
        nearest = self.loaded.table.nearest
        return [
            id
            for piece in request.prompt
            for id in (piece.ids if isinstance(piece, Ids) else nearest(piece.rows.to(self.loaded.table.rows)).tolist())
        ]

    def text(self, request: Request) -> str:
        """A prompt as a reader sees it, special tokens included."""
        return self.loaded.detokenizer(special=True).text(self.ids(request))

    # Telling

    def demand(self, kept: object, broken: str) -> None:
        """Fail with what was found, what was expected and what to do, unless the promise is kept."""
        if not kept:  # no assert statement: under `python -O` everything would pass
            raise AssertionError(f"{self.protocol.name}: {broken}")

    def skip(self, reason: str) -> NoReturn:
        """Leave a test out that does not apply."""
        raise SkipTest(reason)


def _flat(pieces: Sequence[tuple[int, ...] | int]) -> list[int]:
    return [id for piece in pieces if isinstance(piece, tuple) for id in piece]
