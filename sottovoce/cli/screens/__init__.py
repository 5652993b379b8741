"""Views of a run: on a terminal, live or afterwards, as Markdown, as JSON."""
