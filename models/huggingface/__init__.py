"""Hugging Face models of any family: weights, layers, masks, templates, the forward pass."""
