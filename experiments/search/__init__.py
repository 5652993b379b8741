"""Search over temperatures and layers; each trial is a run, and all runs are in one folder."""
