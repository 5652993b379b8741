"""How a thought travels: messages, payloads and their store, the board, and the protocols."""
