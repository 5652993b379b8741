"""Channels between agents: messages, payloads and their store, the board, and the protocols."""
