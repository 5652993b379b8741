"""The report of saved runs: tables, plots and every message, in one self-contained HTML file."""
