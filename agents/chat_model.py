"""Replies of any chat model through LangChain, so that callbacks, streams, caches and tracing see the call.

Hosted models read words. Parameters that their servers refuse are left out, and models that think get extra room for
their thoughts. A local model is called this way if a callback listens to LangChain's calls, or if the caller has
wrapped it in a class, a cache or a rate limiter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler
from langchain_core.globals import get_llm_cache
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.tracers._streaming import _StreamingCallbackHandler

from sottovoce.agents.ask import Ask
from sottovoce.agents.convert import TOKENS, from_langchain, in_words, local_options, standard, to_messages
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.hosted import awithin, cut_reply, note_model, noted, status_of, structured
from sottovoce.agents.hosted_thinking import MORE, limit_of, limited, switch, with_parts
from sottovoce.agents.local import Grew
from sottovoce.agents.parameters import Refused
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, words
from sottovoce.core.any_types import Keywords
from sottovoce.core.errors import UsageError
from sottovoce.core.event_loop import check_not_forked, in_daemon, is_ours
from sottovoce.core.text import without_secrets
from sottovoce.core.thoughts import Own, is_opened_by_prompt, most_thoughts, unknown_tag

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadRef, PayloadStore

IN_WORDS = "words"
"""The protocol name in a payload that has only log-probabilities of a hosted model, which nobody hears."""


async def reply(
    model: BaseChatModel,
    ask: Ask,
    refused: Refused,
    store: PayloadStore | None = None,
    thinking: bool | int | None = None,
    markers: Own = None,
    grew: Grew | None = None,
) -> Message:
    """Return the reply of a chat model to a request; `refused` are the parameters that servers have refused so far.

    `thinking` switches the thoughts of a hosted model, and `markers` are those in its text, as in the settings. A limit
    is one of the text, so a model that thinks gets room on top. If its thoughts leave no text, it is asked once more.
    `grew` takes the text so far, each time it grows.
    """
    config = ensure_config()
    if isinstance(model, HookedChatModel | ScriptedChatModel) and not is_observed(model, config):
        return await model.reply(ask, grew)
    listener: RunnableConfig = {} if grew is None else {"callbacks": [Growing(grew)]}
    config = merge_configs(config, {"metadata": {**ask.place._asdict(), "asked": ask.asked}}, listener)
    if is_hooked(model):
        return await _replied(model, ask, to_messages(ask.turns), config, local_options(ask), refused, store)
    messages = in_words(ask.turns, words(ask.prefill))
    options = standard(ask) | structured(model, ask.response_format)
    thinker, limit, usual = refused.thinker(model), ask.max_tokens or limit_of(model), most_thoughts(thinking or None)
    wish = thinking if ask.thinks or not (thinking or thinker.most_thoughts) else False
    fields = {} if wish is None else switch(model, wish) or {}
    usual = max(usual, fields.get("thinking", {}).get("budget_tokens", 0))
    allowed = max(thinker.most_thoughts, usual if thinking else 0)
    called, config = (model.model_copy(update=fields) if fields else model), with_parts(config, markers, thinker.opened)

    def call(thoughts: int) -> Awaitable[Message]:
        inline = thoughts or markers  # stop strings would end the thoughts
        own = {name: value for name, value in options.items() if name != "stop" or not inline}
        sender, own = limited(called, own, limit + thoughts) if limit else (called, own)
        return _replied(sender, ask, messages, config, own, refused, store, markers)

    first = await call(allowed)
    if not first.thoughts and not first.stats.get("tokens_thoughts"):
        return first
    thinker.most_thoughts = thinker.most_thoughts or usual
    if limit is None or allowed > usual or not _lacks_room(first, limit):
        return first
    try:
        again = await call(MORE * usual)
    except Exception as error:  # the context may have no room for so much
        if status_of(error) not in (400, 422):
            raise
        return first
    thinker.most_thoughts = MORE * usual if allowed else usual
    known = {name: first.stats.get(name, 0) + again.stats[name] for name in TOKENS if name in again.stats}
    stats = known if "tokens_out" in first.stats else {}  # else the sum is unknown
    note = f"its thoughts left no room for its text: asked again with room for {MORE * usual:,} tokens of thoughts"
    others = {name: value for name, value in again.stats.items() if name not in TOKENS}
    return replace(again, notes=(*again.notes, note), stats=others | stats)


def _lacks_room(message: Message, limit: int) -> bool:
    """Return True if the thoughts of a reply took the room of its text."""
    if message.ended == "limit":  # a text as long as its limit was cut itself
        return "tokens_thoughts" not in message.stats or message.stats["tokens_out"] < limit
    return not message.text.strip() and message.ended not in ("stopped", "refused", "thoughts")


async def _replied(
    model: BaseChatModel,
    ask: Ask,
    messages: list[BaseMessage],
    config: RunnableConfig,
    options: dict[str, Keywords],
    refused: Refused,
    store: PayloadStore | None,
    markers: Own = None,
) -> Message:
    """Return the reply to one call. If the server refuses parameters, call again without them."""
    notes: list[str] = []
    while True:
        sender, sent = refused.sent(model, options)
        try:
            message: BaseMessage = await _sent(sender, messages, config, sent)
            break
        except Exception as error:
            note_model(model, error)
            if (cut := cut_reply(model, error)) is not None:
                message = cut
                break
            if is_hooked(model):
                raise
            notes += refused.learn(sender, sent, error)
    if not isinstance(message, AIMessage):
        message = AIMessage(str(message.text), response_metadata=message.response_metadata)
    if not is_hooked(model):
        message = noted(message, [*notes, *refused.unnamed(model, message)], markers)
        refused.thinker(model).opened |= is_opened_by_prompt(str(message.text), markers)
    said = from_langchain(message, ask, markers)
    if not is_hooked(model) and (tag := unknown_tag(said.text)):
        open, close = f"<{tag}>", f"</{tag}>"
        note = f"begins with {open} ... {close}; if these are thoughts, set thinking_markers to '{open}' and '{close}'"
        said = replace(said, notes=(*said.notes, note))
    if is_hooked(model):
        return replace(said, measured=measured(message, said.text, store))
    text, thoughts, *notes = map(without_secrets, (said.text, said.thoughts, *said.notes))  # its server knows the key
    log_probabilities = measured(message, text, store) if text == said.text else None  # its tokens would spell it
    stats = {**said.stats, **mean_nll(message, text)}
    return replace(said, text=text, thoughts=thoughts, notes=tuple(notes), measured=log_probabilities, stats=stats)


class Growing(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """A callback handler that reports the text of a reply so far; LangChain streams a call that has such a handler."""

    run_inline = True

    def __init__(self, grew: Grew) -> None:
        self._grew, self._texts = grew, dict[UUID, str]()

    # Any: as LangChain has it
    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **more: Any) -> None:
        """Report the text with a new piece."""
        text = str(token if chunk is None else chunk.text)
        self._texts[run_id] = self._texts.get(run_id, "") + text
        self._grew(self._texts[run_id])

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Return a stream of a runnable as it is."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Return a stream of a runnable as it is."""
        return output


def is_observed(model: BaseChatModel, config: RunnableConfig) -> bool:
    """Return True if anybody but the asking act sees a call of the model, or may change its result."""
    if type(model) not in (HookedChatModel, ScriptedChatModel) or not is_hooked(model):
        return True
    if model.callbacks or model.rate_limiter or (model.cache is not False and (model.cache or get_llm_cache())):
        return True
    manager = AsyncCallbackManager.configure(config.get("callbacks"), model.callbacks, model.verbose)
    return bool(manager.handlers)


def _sent(
    model: BaseChatModel, messages: list[BaseMessage], config: RunnableConfig, options: dict[str, Keywords]
) -> Awaitable[BaseMessage]:
    """Call a model within its timeout. On our loop, its sync client is called, in a thread.

    An async client's connections belong to the loop that opened them, and an application may use the same client.
    """
    if not isinstance(model, HookedChatModel | ScriptedChatModel):
        check_not_forked("connections")
        if is_ours():
            return awithin(model, in_daemon(partial(model.invoke, messages, config, **options)))
    return awithin(model, model.ainvoke(messages, config, **options))


def is_hooked(model: BaseChatModel) -> bool:
    """Return whether heard messages reach the model as messages and not only as text."""
    return isinstance(model, HookedChatModel) or (isinstance(model, ScriptedChatModel) and model.hooked)


def mean_nll(reply: AIMessage, text: str) -> dict[str, float]:
    """Return the statistic `mean_nll` of a hosted model's text, without the tokens before it, such as its thoughts.

    It is {} if the model returned no log-probabilities of its tokens.
    """
    logprobs: Any = reply.response_metadata.get("logprobs")  # Any: as a server wrote it
    try:
        tokens = [(str(token["token"]), -float(token["logprob"])) for token in logprobs["content"]]
    except (KeyError, TypeError, ValueError):
        return {}
    at, ends = "".join(token for token, _ in tokens).rfind(text), accumulate(len(token) for token, _ in tokens)
    nats = [nll for (_, nll), end in zip(tokens, ends, strict=True) if end > at]
    return {"mean_nll": round(fmean(nats), 4)} if nats and isfinite(sum(nats)) else {}


def measured(reply: AIMessage, text: str, store: PayloadStore | None) -> PayloadRef | None:
    """Store the log-probabilities of a hosted model's text, if it returned any; local models' payloads have statistics.

    Tokens before the text, such as those of thoughts, are left out.
    """
    if not reply.response_metadata.get("logprobs"):
        return None
    import torch  # late: runs without a local model do not need it

    from sottovoce.channels.payload import Label, Payload
    from sottovoce.channels.store import PayloadStore
    from sottovoce.monitors.tokens import BEST, encoded, of_response

    try:
        tokens = of_response(reply)
    except UsageError:  # log-probabilities of only the sampled tokens say nothing about a distribution
        return None
    at = max(tokens.text.rfind(text), 0)
    kept = [i for i, (start, _) in enumerate(tokens.spans) if start >= at]
    if not kept:
        return None
    k = min(len(tokens.top[i]) for i in kept)
    tensors = {
        "ids": torch.full((len(kept),), -1),  # providers do not return token ids
        "spans": torch.tensor([tokens.spans[i] for i in kept]) - at,
        "top_logprobs": torch.tensor([tokens.top[i][:k] for i in kept]),
        BEST: torch.tensor(encoded([tokens.best[i] for i in kept] if tokens.best else ()), dtype=torch.uint8),
    }
    return (store or PayloadStore()).put(Payload(Label(IN_WORDS, tokens.text[at:], "", "", ""), tensors))
