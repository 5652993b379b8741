"""What a reader sees of a run: on a terminal, live or after it, as Markdown, as JSON."""
