"""Brief (KVComm, Shi et al. 2025, arXiv 2510.03346; Communicating Activations, Ramesh and Li 2025, arXiv 2501.14082).

Senders read the documents in parallel, and brief the last agent, which gets the question and answers it. They may not
know the question. The same graph has both bounds: without senders, and with the documents in the last agent's prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.settings import Brief


def next_speakers(state: Any) -> Sequence[str]:
    """Ask the senders first, if the last agent hears them."""
    settings = Brief.model_construct(**state["settings"])
    return settings.senders() if settings.hears == "brief" else settings.speakers()[-1:]


def create_brief(settings: Brief | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of senders and the agent that answers. `inputs`: see `GraphInputs`."""
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import brief as acts
    from sottovoce.nodes.decide import by_last
    from sottovoce.nodes.setup import close_round

    settings = Brief.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, begin=acts.begin, rule=by_last)
    last = settings.speakers()[-1]
    frame.graph.add_conditional_edges("next_round", next_speakers, settings.speakers())
    for sender in settings.senders():
        frame.act(sender, acts.brief, role="sender", to="close_round")
    frame.join("close_round", close_round, to=last)
    frame.act(last, acts.answer, role="receiver", to="decide")
    return frame.graph


def manner(settings: Brief) -> str:
    """Return a phrase that describes the discussion."""
    if settings.hears != "brief":
        return f"one agent alone, with {'the' if settings.hears == 'documents' else 'no'} documents"
    asked = "the question" if settings.know == "question" else "no question"
    return f"{counted(len(settings.senders()), 'sender')} with documents and {asked}, one agent that answers"


SCHEME = Scheme(
    "brief",
    Brief,
    create_brief,
    answers=("answer",),
    headings={"brief": "Briefs", "answer": "Answer"},
    sample="briefing",
    manner=manner,
    first_options="--sample briefing/1 --max-tokens 48",
)
make_graph = SCHEME.make_graph
