"""Two different models: one reads the documents, the other answers from keys and values that a bridge maps.

Make the bridge first: `python cli.py bridge fit bundled smollm2 --to bridges/bundled-smollm2`.
"""

import sys

from sottovoce import Brief, create_brief

sender, receiver, bridge = sys.argv[1:] or ("bundled", "smollm2", "bridges/bundled-smollm2")
brief = create_brief(Brief(model=[sender, receiver], protocol="kv", bridge=(bridge,), max_tokens=24)).compile()

state = brief.invoke({"question": "Where does Mira keep the key?", "documents": ["Mira keeps the key in a teapot."]})

print(state["decision"]["answer"], "-", "; ".join(state["notes"]))
