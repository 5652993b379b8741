"""Bridges between two models: what is read for a fit, the fit, and its test. `channels.bridge` has their use."""
