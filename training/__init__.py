"""How the bundled model was made: data, tokenizer, training, measurement."""
