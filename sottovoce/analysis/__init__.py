"""Analysis of saved runs: scores, statistical tests, discussion metrics, symmetry, the papers' scorers."""
