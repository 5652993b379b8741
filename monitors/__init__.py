"""Measures of an agent's uncertainty, and monitors that predict failure from them."""
