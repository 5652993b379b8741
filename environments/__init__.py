"""Worlds in which agents act: pure rules, without models or LangGraph."""
