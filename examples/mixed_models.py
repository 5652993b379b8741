"""Local and hosted models in one debate: local agents exchange payloads, the hosted agent hears only words.

With OPENAI_API_KEY set, agent_3 is OpenAI's model, and its prompts leave this machine. Without a key, nothing does:
agent_3 uses a server in this file, on the loopback interface, which speaks OpenAI's protocol and always replies
"The answer is 22." Needs `pip install langchain-openai`.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from langchain_openai import ChatOpenAI

from sottovoce import Debate, HookedChatModel, create_debate

MODEL = "gpt-4o-mini"


class StandIn(BaseHTTPRequestHandler):
    """A server that replies to every chat request with the same words."""

    def do_POST(self) -> None:
        """Read a request and send the reply."""
        self.rfile.read(int(self.headers["content-length"]))
        said = {"role": "assistant", "content": "The answer is 22."}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 6, "total_tokens": 6}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice]}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({**reply, "usage": usage}).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def hosted() -> Iterator[ChatOpenAI]:
    """Yield OpenAI's model if there is a key, else a model that uses the local server."""
    if os.environ.get("OPENAI_API_KEY"):
        yield ChatOpenAI(model=MODEL)
        return
    print("OPENAI_API_KEY is not set: a server on this machine stands in for the hosted model")
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        told: dict[str, Any] = {"base_url": f"http://127.0.0.1:{server.server_port}/v1", "api_key": "none"}
        yield ChatOpenAI(model=MODEL, disable_streaming=True, **told)  # Any: a class of its own for the key
        server.shutdown()


if __name__ == "__main__":
    local = HookedChatModel(protocol="cipher")
    with hosted() as elsewhere:
        models = {"agent_1": local, "agent_2": local, "agent_3": elsewhere}
        debate = create_debate(Debate(agents=3, rounds=2), models=models).compile()
        asked = {"question": "What is 14 + 3 * 5 - 7?"}
        state = debate.invoke(asked, output_keys=["board", "notes", "decision"])
    for note in state["notes"]:
        print("note:", note)
    for message in state["board"]:
        carried = message["payload"]["protocol"] if message["payload"] else "words"
        print(f"{message['agent']} ({message['source']}, {carried}): {message['text']}")
    print(state["decision"]["answer"], "-", state["decision"]["why"])
