"""Tables and figures of the papers: one file each, which runs as ordinary experiments."""
