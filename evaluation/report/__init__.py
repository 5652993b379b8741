"""A page about kept runs: tables, plots and every message, in one HTML file that asks nobody for anything."""
