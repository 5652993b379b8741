"""What Hugging Face models are, whatever their family: weights, layers, masks, templates, the forward pass."""
