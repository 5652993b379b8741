"""An agent speaks: within its length, up to its stop strings, the same in any company."""

from __future__ import annotations

from dataclasses import replace

import torch

from sottovoce.channels.conformance.compare import misshapen, unlike
from sottovoce.channels.conformance.setting import AFTER, BEFORE, QUESTION, WORDS, Setting
from sottovoce.channels.message import Heard, Turn
from sottovoce.channels.nl import NL
from sottovoce.models import Request


class SpeakingTests(Setting):
    """What holds for the replies of a protocol."""

    def test_no_reply_is_longer_than_max_new(self) -> None:
        """Room in the context was counted for that many."""
        for most in (1, 3):
            found = len(self.say(speech=self.speech(most)).payload)
            self.demand(found <= most, f"a reply of {found} tokens; expected at most {most}: pass `speech.max_new` on")

    def test_a_stop_string_ends_the_message_and_is_no_part_of_it(self) -> None:
        """Tokens, rows and states end where the text does."""
        whole = self.enough(self.say().payload)
        start = whole.spans[len(whole) // 2][0]
        stop = whole.label.text[start : start + 3]
        cut = self.say(speech=self.speech(stop=(stop,))).payload
        self.demand(
            stop not in cut.label.text and cut.ids == whole.ids[: len(cut)],
            f"with the stop string {stop!r} an agent said {cut.label.text!r}, without it {whole.label.text!r}; "
            "pass `speech.stop` on",
        )
        wrong = misshapen(cut, self.loaded)
        self.demand(not wrong, f"with the stop string {stop!r} {wrong}; cut all that is carried alike")

    def test_the_same_seed_gives_the_same_reply(self) -> None:
        """Seeds derive from run, question, round and agent: a run repeats."""
        hot = self.speech(temperature=2.0)
        first, second = (self.say("Why?", speech=hot).reply for _ in range(2))
        different = unlike(second, first)
        self.demand(not different, f"one seed gave two replies: {different}; draw nothing but by `speech.sampling`")

    def test_company_changes_nothing(self) -> None:
        """Requests of all agents, questions and protocols are run in one batch."""
        if self.loaded.dtype != torch.float32:
            self.skip(f"in {self.loaded.dtype} sums of another order may give other tokens; promised for float32")
        request = self.hearing(Heard(self.message()), speech=self.speech(6))
        company = [*self._neighbours(), request, self.ask(Turn("user", ("Why?",)), speech=self.speech(3))]
        together = self.loaded.engine.run_all(company)
        different = unlike(together[-2], self.reply(request))
        self.demand(
            not different,
            f"a request in a batch of {len(company)} gave another reply than alone: {different}; "
            "let a row's weights depend on its own logits alone",
        )

    def test_what_a_watcher_sees_is_the_message(self) -> None:
        """Text that is streamed must not be taken back at the end."""
        seen: list[str] = []
        request = self.ask(Turn("user", (QUESTION,)))
        reply = self.loaded.engine.submit(request, seen.append).result()
        text = self.protocol.record(reply, self.loaded).label.text
        self.demand(
            seen[-1:] == [text],
            f"a watcher saw {seen[-1:]}, the message is {text!r}; decode special tokens in `Stop` as in `record`",
        )

    def test_an_empty_reply_is_recorded_and_heard_without_a_trace(self) -> None:
        """A model may end at once; the discussion goes on."""
        request = self.ask(Turn("user", (QUESTION,)))
        at_once = replace(request.stop, ids=tuple(range(len(self.loaded.table))), keep=False)
        payload = self.protocol.record(self.reply(replace(request, stop=at_once)), self.loaded)
        self.demand((len(payload), payload.label.text) == (0, ""), f"no token was recorded as {payload.label.text!r}")
        found = self.hearing(Heard(self.message(payload)), speech=self.speech(2))
        self.reply(found)
        expected = sum(len(side) for side in self.around(self.loaded))
        self.demand(
            self.retokenises or (found.length == expected and not found.edits),
            f"an empty message was heard as {found.length - expected} positions with {len(found.edits)} edits; "
            "expected none",
        )

    def test_a_reply_of_one_token_is_recorded_and_heard(self) -> None:
        """Differences between tokens have an end to stumble over."""
        payload = self.say(speech=self.speech(1)).payload
        self.demand(len(payload) == 1, f"one token was recorded as {len(payload)}")
        self.reply(self.hearing(Heard(self.message(payload)), speech=self.speech(2)))

    def _neighbours(self) -> list[Request]:
        """Requests in words, shorter and longer than those of the protocol."""
        chats = ["Why?", BEFORE + 10 * QUESTION + AFTER]
        words = [[Turn("user", (chat,))] for chat in chats]
        return [NL().lower(turns, self.loaded, self.load, self.speech(WORDS)) for turns in words]
