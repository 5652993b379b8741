"""An application that may be killed at any moment: after a restart, it repeats no reply that was committed.

    python examples/durable.py                                                  # stores debates in debates.sqlite
    python examples/durable.py --saver postgresql://ada@localhost/debates --thread 2

A thread is one debate. In `exact` mode the result is the same, to the bit, whether it was killed or not.
"""

import argparse
import sqlite3
import sys
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from sottovoce import Debate, Decision, PayloadStore, SottovoceError, create_debate

SETTINGS = Debate(agents=3, rounds=3, protocol="cipher", exact=True)


def open_saver(where: str) -> Any:  # Any: a context manager of a saver
    """Return LangGraph's saver in a SQLite file or a Postgres database, to be opened by `with`."""
    if not where.startswith("postgresql://"):
        return SqliteSaver.from_conn_string(where)
    from langgraph.checkpoint.postgres import PostgresSaver

    return PostgresSaver.from_conn_string(where)


def discuss(question: str, thread: str, saver: str, folder: str, **more: Any) -> Decision:
    """Start the debate of a thread, or resume it; `more` is added to LangGraph's config."""
    config: Any = {"configurable": {"thread_id": thread}, **more}
    graph = create_debate(SETTINGS, store=PayloadStore(folder))
    with open_saver(saver) as opened:
        opened.setup()
        debate = graph.compile(checkpointer=opened)
        stands = debate.get_state(config)
        if not stands.values.get("decision"):
            # Not `stands.next`: it is also empty between the last reply of a round and its checkpoint.
            # "sync": a round's replies are in the saver before the next round starts.
            debate.invoke(None if stands.values else {"question": question}, config, durability="sync")
        decision: Decision = debate.get_state(config).values["decision"]
        return decision


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?", default="What is 14 + 3 * 5 - 7?")
    parser.add_argument("--saver", default="debates.sqlite", help="a file, or postgresql://USER@HOST/DATABASE")
    parser.add_argument("--thread", default="1", help="a name for the debate; an earlier name resumes that debate")
    parser.add_argument("--payloads", default="payloads", help="folder for the payloads of messages")
    given = parser.parse_args()
    try:
        answer = discuss(given.question, given.thread, given.saver, given.payloads)
    except (SottovoceError, sqlite3.Error) as error:  # SQLite's own: a damaged file, or a full disk
        sys.exit(f"thread {given.thread!r} cannot continue: {error}")
    print(answer["answer"], "-", answer["why"])
