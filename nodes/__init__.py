"""Parts that schemes share: agents, requests, prompts, votes, the state, settings."""
