"""Tables and figures of the papers: a file each says how they were made, and is held as ordinary experiments."""
