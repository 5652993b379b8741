"""Settings that are searched: temperatures and layers, each trial a run of its own, all of them in one folder."""
