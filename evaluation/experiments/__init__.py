"""Runs that belong together: a file says what they are, one command holds them, one folder keeps them."""
