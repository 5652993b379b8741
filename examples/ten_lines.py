"""An application that embeds a debate, in ten lines: it asks a question, and prints the answer and the votes."""

from sottovoce import Debate, create_debate

debate = create_debate(Debate(agents=3, protocol="cipher")).compile()

decision = debate.invoke({"question": "What is 14 + 3 * 5 - 7?"})["decision"]

print(decision["answer"], "-", decision["why"])
for vote in decision["votes"]:
    print(f"{vote['agent']} said {vote['answer']}")
