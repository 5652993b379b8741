"""Is it going wrong? How unsure an agent was where it mattered, and monitors that foretell failure from it."""
