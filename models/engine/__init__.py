"""Requests become replies: one thread, one scheduler, one decoding loop for all."""
