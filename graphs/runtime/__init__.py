"""The runtime of graphs: their first and last nodes, compilation, threads, checkpoint savers, servers."""
