"""WhoDunit: agents who know different things find the one character whom all of it fits (arXiv 2502.05986)."""
