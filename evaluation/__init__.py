"""Was it right, and is the difference real? Samples, scores, statistics."""
