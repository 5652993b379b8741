"""The settings of the ReAct relay."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sottovoce.core.bounds import Agents, Few, Tokens
from sottovoce.settings.retrieval import ENCYCLOPEDIA, SEARCHED, Searching


class ReAct(Searching):
    """Agents search and look up in turn (ReAct relay, SDE).

    Each takes one step, until one of them answers.
    """

    acts: ClassVar[tuple[str, ...]] = ("step", "action")
    shows_documents: ClassVar[bool] = False
    default_temperature: ClassVar[float | None] = 0.0
    spreads_temperature: ClassVar[bool] = False  # SDE sets 0 for CIPHER too (appendix B.2.2)

    agents: Agents = Field(default=7, ge=1, description="Number of agents; they take turns.")
    steps: Few = Field(default=7, ge=1, description="Maximum number of steps of all agents together.")
    step_tokens: Tokens = Field(default=100, ge=1, description="Maximum length of a step, in tokens.")
    library: Annotated[str, SEARCHED] = Field(
        default=ENCYCLOPEDIA,
        description="Library to search: encyclopedia (built in), documents (the question's own), or a retriever "
        " such as bm25:FOLDER or wikipedia.",
    )
    search: Literal["title", "passages"] = Field(
        default="title",
        description="Page that a search opens: title (the page of that title, as in ReAct) or passages (the three best "
        "passages, as in SDE).",
    )
    carry: Literal["latest", "all"] = Field(  # type: ignore[assignment]  # in place of the protocol's option
        default="latest", description="Steps that the protocol carries; others are sent as text: latest or all."
    )
