"""WhoDunit: agents with different knowledge find the one character that fits all facts (arXiv 2502.05986)."""
