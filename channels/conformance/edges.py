"""Two models share a protocol, or are refused by name; an edge that passes runs from end to end."""

from __future__ import annotations

from collections.abc import Iterator

from sottovoce.channels.conformance.compare import positions
from sottovoce.channels.conformance.loaded_models import DIFFERENCES, Difference
from sottovoce.channels.conformance.setting import Setting
from sottovoce.channels.message import Heard
from sottovoce.errors import ProtocolError
from sottovoce.models import LoadedModel, Rows


class EdgeTests(Setting):
    """What holds between two models."""

    def test_one_model_on_both_sides_is_never_refused(self) -> None:
        """Agents of one model are the usual case."""
        refusal = self._refusal(self.loaded, self.loaded)
        self.demand(
            not refusal, f"`check` refuses one model on both sides ({refusal}); a debate of its agents needs it"
        )

    def test_every_refused_edge_is_declared_and_named(self) -> None:
        """A refusal is a ProtocolError that names both models, before anything runs."""
        for difference, speaker, hearer in self._edges():
            refusal = self._refusal(speaker, hearer)
            if difference not in self.refuses:
                self.demand(not refusal, f"`check` refuses {difference}: {refusal}; if it must, list it in `refuses`")
                continue
            if refusal is None:
                raise AssertionError(f"{self.protocol.name}: `refuses` lists {difference!r}, but `check` lets it pass")
            named = repr(speaker.name) in refusal and repr(hearer.name) in refusal
            self.demand(named, f"the refusal {refusal!r} must name {speaker.name!r} and {hearer.name!r}")

    def test_an_edge_that_passes_runs_from_end_to_end(self) -> None:
        """Whatever `check` lets pass must be heard and answered."""
        for difference, speaker, hearer in self._edges():
            if difference in self.refuses:
                continue
            said = self.say(loaded=speaker, speech=self.speech(4, hearers=(hearer,))).payload
            self.reply(self.hearing(Heard(self.message(said)), loaded=hearer, speech=self.speech(2)), hearer)

    def test_across_a_refused_edge_a_message_is_read_in_words(self) -> None:
        """`--fallback nl` carries such an edge in words."""
        if not self.refuses:
            self.skip("the protocol refuses no edge")
        for difference, speaker, hearer in self._edges():
            if difference not in self.refuses:
                continue
            message = self.message(self.say(loaded=speaker, speech=self.speech(4)).payload)
            request = self.hearing(Heard(message), loaded=hearer, speech=self.speech(2))
            latent = bool(request.edits) or any(isinstance(piece, Rows) for piece in request.prompt)
            self.demand(
                not latent, f"{difference} is refused, yet a message brings rows or edits there; check in `read`"
            )
            self.reply(request, hearer)

    def test_another_vocabulary_never_reads_the_speakers_ids(self) -> None:
        """An id means another token there."""
        hearer = self.other("other vocabulary")
        message = self.message()
        if any(isinstance(piece, Rows) for piece in self.hearing(Heard(message), loaded=hearer).prompt):
            self.skip("the protocol brings rows across vocabularies")
        found = [what for what, _ in positions(self.hearing(Heard(message), loaded=hearer))]
        text = hearer.detokenizer(special=True).text([id for id in found if isinstance(id, int)])
        self.demand(
            message.text in text, f"{message.text!r} is heard in {text!r}; ids mean nothing across vocabularies"
        )

    def _edges(self) -> Iterator[tuple[Difference, LoadedModel, LoadedModel]]:
        for difference in DIFFERENCES:
            other = self.other(difference)
            yield difference, self.loaded, other
            yield difference, other, self.loaded

    def _refusal(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        try:
            told = self.protocol.check(speaker, hearer)
        except ProtocolError as error:
            return str(error)
        except Exception as error:  # what else it may be is the question
            raise AssertionError(f"{self.protocol.name}: `check` raised {error!r}; expected a ProtocolError") from error
        self.demand(told != "", "`check` says '' of an edge that passes; expected None or a sentence")
        return None
