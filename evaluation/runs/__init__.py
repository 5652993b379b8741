"""A run of a scheme on a question: what is asked, what happens, and the record that is kept of it."""
