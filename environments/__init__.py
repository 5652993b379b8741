"""Worlds in which agents act: pure rules, without a model and without LangGraph."""
