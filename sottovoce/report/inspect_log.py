"""A run as an `EvalLog` of Inspect, in its JSON format (version 2), which `inspect view` and `read_eval_log` open.

A discussion is a sample: a question in the epoch of its seed. Each call of a model is a model event in a span of its
agent, with the recorded prompt. Payloads stay in the run: messages name their digests in the metadata. The format is
described at https://inspect.aisi.org.uk/eval-logs.html; nothing here imports the package.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from sottovoce.channels.message import Message
from sottovoce.core.any_types import JSON
from sottovoce.graphs import scheme
from sottovoce.nodes.question import question_id
from sottovoce.report.describe import verdict
from sottovoce.runs.cost import MODELS
from sottovoce.runs.record import DiscussionRecord, Result
from sottovoce.runs.run import Run

STATUS = {"done": "success", "stopped": "cancelled", "running": "started"}
SCORER = "sottovoce"


def inspect_log(run: Run) -> str:
    """Return the log of a run as JSON, with a sample for each discussion that ended."""
    records = [record for record in run.records.values() if record.status in ("done", "failed")]
    results = run.results()
    usage = _usage_by_model(call for record in records for call in _calls(record))
    scores = [
        {
            "name": name,
            "scorer": SCORER,
            "scored_samples": len(known),
            "unscored_samples": len(results) - len(known),
            "metrics": {"mean": {"name": "mean", "value": fmean(known.values())}},
        }
        for name, known in {SCORER: results.scores(), **results.measures}.items()
        if known
    ]
    log = {
        "version": 2,  # of the format
        "status": STATUS[run.status],
        "eval": _spec(run),
        "plan": {
            "name": "plan",
            "steps": [{"solver": run.manifest.scheme, "params": run.manifest.settings}],
            "config": {},
        },
        "results": {
            "total_samples": len(run.records),
            "completed_samples": sum(record.status == "done" for record in records),
            "scores": scores,
        },
        "stats": {"started_at": run.manifest.started, "completed_at": "", "model_usage": usage},
        "samples": [_sample(run, record, result) for record, result in zip(records, results, strict=True)],
    }
    return json.dumps(log, indent=2) + "\n"


def _spec(run: Run) -> JSON:
    manifest, protocol = run.manifest, run.manifest.settings["protocol"]
    digest = hashlib.sha256(manifest.model_dump_json().encode()).hexdigest()[:22]
    ids = [question_id(question) for question in run.questions()]
    return {
        "eval_id": digest,
        "run_id": digest,
        "created": manifest.started,
        "task": f"{scheme(manifest.scheme).command}/{protocol}",
        "task_id": digest,
        "task_args": manifest.settings,
        "dataset": {"name": manifest.origin, "samples": len(ids), "sample_ids": ids},
        "model": ", ".join(dict.fromkeys(manifest.settings["model"])),
        "config": {"epochs": len(manifest.seeds)},
        "packages": manifest.versions,
        "metadata": {
            "scheme": manifest.scheme,
            "protocol": protocol,
            "seeds": manifest.seeds,
            "questions_sha256": manifest.questions,
            "prompts_sha256": manifest.prompts,
            "models": {agent: model.model_dump() for agent, model in manifest.models.items()},
        },
    }


def _sample(run: Run, record: DiscussionRecord, result: Result) -> JSON:
    question, messages = record.question, list(map(_message, record.messages))
    last = messages[-1] if messages else {"role": "assistant", "content": ""}
    reply = {"role": "assistant", "content": result.answer or last["content"]}
    scores: JSON = {name: {"value": value} for name, value in result.measures.items() if value is not None}
    if result.score is not None and record.decision is not None:
        scores[SCORER] = {
            "value": result.score,
            "answer": result.answer,
            "explanation": verdict(record) or record.decision["why"],
            "metadata": {"abstained": result.abstained, "votes": record.decision["votes"]},
        }
    sample: JSON = {
        "id": result.question,
        "epoch": run.manifest.seeds.index(record.seed) + 1,
        "input": question["question"],
        "choices": question.get("choices"),
        "target": result.target or "",
        "messages": [{"role": "user", "content": question["question"], "source": "input"}, *messages],
        "output": {"model": record.settings["model"][0], "choices": [{"message": reply, "stop_reason": "stop"}]},
        "scores": scores,
        "metadata": {"seed": record.seed, "decision": record.decision, "resets": len(record.resets)},
        "events": list(_events(run, record)),
        "model_usage": _usage_by_model(_calls(record)),
        "total_time": record.seconds,
    }
    if record.error is not None:
        sample["error"] = {"message": record.error, "traceback": "", "traceback_ansi": ""}
    return sample


def _message(message: Message) -> JSON:
    payload = message.payload
    metadata: JSON = {
        **message.place._asdict(),
        "source": message.source,
        "withdrawn": message.withdrawn,
        "notes": list(message.notes),
        "stats": dict(message.stats),
        "payload": payload and {"protocol": payload.protocol, "sha256": payload.sha256, "bytes": payload.nbytes},
    }
    return {
        "id": "/".join(map(str, message.place)),
        "role": "user" if message.source == "human" else "assistant",
        "content": message.full_text,
        "source": "generate" if message.source in MODELS else None,
        "metadata": metadata,
    }


def _events(run: Run, record: DiscussionRecord) -> Iterator[JSON]:
    """Yield the calls of models, each in a span of its agent; the log of a run has no time for a single call."""
    prompts = {prompt.place: prompt.turns for prompt in record.prompts}
    common = {"timestamp": run.manifest.started, "working_start": 0.0}
    for model, message in _calls(record):
        span = "/".join(map(str, message.place))
        stop = ("max_tokens" if message.ended == "limit" else "unknown") if message.cut else "stop"
        yield {"event": "span_begin", "id": span, "name": message.agent, "type": "agent", "span_id": span, **common}
        yield {
            "event": "model",
            "span_id": span,
            "model": model,
            "role": message.agent,
            "input": [{"role": role, "content": text} for role, text in prompts.get(message.place, [])],
            "tools": [],
            "tool_choice": "none",
            "config": {"temperature": message.stats.get("temperature")},
            "output": {
                "model": model,
                "choices": [{"message": _message(message), "stop_reason": stop}],
                "usage": _usage([message]),
            },
            **common,
        }
        yield {"event": "span_end", "id": span, "span_id": span, **common}


def _calls(record: DiscussionRecord) -> list[tuple[str, Message]]:
    """Return the messages that models generated, each after the name of its model."""
    return [(record.model_of(message.agent), message) for message in record.messages if message.source in MODELS]


def _usage_by_model(calls: Iterable[tuple[str, Message]]) -> JSON:
    messages: dict[str, list[Message]] = {}
    for model, message in calls:
        messages.setdefault(model, []).append(message)
    return {model: usage for model, of_model in messages.items() if (usage := _usage(of_model))}


def _usage(messages: Sequence[Message]) -> JSON | None:
    """Return the sums of tokens of some calls, None if any call's are unknown; Inspect counts reused tokens apart."""
    if not all("tokens_out" in message.stats for message in messages):
        return None
    read, reused, written, thought = (
        int(sum(message.stats.get(name, 0) for message in messages))
        for name in ("tokens_in", "tokens_reused", "tokens_out", "tokens_thoughts")
    )
    return {
        "input_tokens": read - reused,
        "input_tokens_cache_read": reused,
        "output_tokens": written + thought,
        **({"reasoning_tokens": thought} if thought else {}),
        "total_tokens": read + written + thought,
    }
