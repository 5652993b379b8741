"""A message is heard: at its place, in the part that was meant, with what lies under it."""

from __future__ import annotations

from collections.abc import Sequence

from sottovoce.channels.conformance.compare import Position, apart, of_words, positions
from sottovoce.channels.conformance.setting import AFTER, BEFORE, OTHER_QUESTION, QUESTION, Setting
from sottovoce.channels.message import Heard, Part, Turn
from sottovoce.channels.nl import NL
from sottovoce.channels.protocol import Speech
from sottovoce.models import ChatTurn, Rows


class HearingTests(Setting):
    """What holds for the prompts in which others are heard."""

    def test_a_message_is_heard_between_the_words_around_it(self) -> None:
        """One position a token, and not a word around them changes."""
        message = self.message()
        found = self.heard(Heard(message))
        tokens = len(self.payload_of(message))
        self.demand(len(found) == tokens, f"{tokens} tokens are heard at {len(found)} positions; expected one each")

    def test_a_prompt_reads_as_its_text(self) -> None:
        """Whoever decodes a prompt finds its wording, and under a protocol of words the message."""
        message = self.message()
        text = self.text(self.hearing(Heard(message)))
        for words in (BEFORE, AFTER, *(() if self.protocol.latent else (message.text,))):
            self.demand(words in text, f"{words!r} is not to be read in the prompt {text!r}")

    def test_several_messages_are_each_heard_at_their_place(self) -> None:
        """Own and others' messages, in turns of one chat, each as if it stood alone."""
        one, two = self.message(), self.message(self.say(OTHER_QUESTION).payload, agent="agent_2")
        heard = [Heard(one, own=True, latest=False), Heard(one), Heard(two)]
        alone = [self.heard(each) for each in heard]
        chat = [
            Turn("user", (QUESTION,)),
            Turn("assistant", (heard[0],)),
            Turn("user", (BEFORE, heard[1], "\nand\n", heard[2], AFTER)),
        ]
        found = positions(self.ask(*chat))
        holes = [ChatTurn(turn.role, tuple(_numbered(part, heard) for part in turn.parts)) for turn in chat]
        expected: list[Position] = []
        for piece in self.loaded.chat.encode(holes):
            expected += alone[piece] if isinstance(piece, int) else of_words(piece)
        self.demand(
            found == expected,
            f"three messages are heard otherwise together than each alone: {apart(found, expected)}; "
            "edits of `read` count from the message's first token",
        )

    def test_of_a_part_its_tokens_alone_are_heard(self) -> None:
        """ReConcile hears a reasoning, a relay a thought: ids, rows and states are cut alike."""
        message = self.message()
        payload, whole = self.payload_of(message), self.heard(Heard(message))
        (start, _), (middle, end) = payload.spans[1], payload.spans[2]
        for span in ((0, len(message.text)), (start, end), (middle, middle + 1), (0, 0)):
            found, expected = self.heard(Heard(message, span)), whole[payload.tokens(span)]
            self.demand(
                found == expected,
                f"characters {span} of a message are not heard as their tokens: {apart(found, expected)}; "
                "cut ids, rows and states alike, by `payload.tokens(heard.span)`",
            )

    def test_own_and_older_messages_are_heard_too(self) -> None:
        """A chat's history holds what the agent said itself and what is rounds old."""
        message = self.message()
        tokens = len(self.payload_of(message))
        for heard in (Heard(message, own=True), Heard(message, latest=False), Heard(message, own=True, latest=False)):
            found = self.heard(heard)
            self.demand(
                len(found) == tokens,
                f"{tokens} tokens are heard at {len(found)} positions with own={heard.own}, latest={heard.latest}",
            )

    def test_a_latent_message_brings_more_than_its_words(self) -> None:
        """`latent` tells transcripts and graphs whether there is more than text."""
        found = self.hearing(Heard(self.message()))
        latent = bool(found.edits) or any(isinstance(piece, Rows) for piece in found.prompt)
        self.demand(
            latent == self.protocol.latent,
            f"`latent` is {self.protocol.latent}, but a message of the round before brings "
            f"{'rows or edits' if latent else 'neither rows nor edits'}; set it to {latent}, or mend `read`",
        )

    def test_a_judge_hears_by_it_and_speaks_in_words(self) -> None:
        """So do moderators, secretaries and summaries."""
        turns = [Turn("user", (BEFORE, Heard(self.message()), AFTER))]
        prompt = self.protocol.hear(turns, self.loaded, self.load)
        request = NL().speak(prompt, self.loaded, Speech(2, self.speech().sampling))
        found, expected = positions(request), positions(self.hearing(*turns[0].parts[1:2]))
        self.demand(found == expected, f"`hear` alone reads otherwise than `lower`: {apart(found, expected)}")
        self.reply(request)


def _numbered(part: Part, heard: Sequence[Heard]) -> str | int:
    return part if isinstance(part, str) else heard.index(part)
