"""Sottovoce: language-model agents that discuss in words and in what lies under the words."""

__version__ = "0.1.0"
