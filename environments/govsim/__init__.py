"""GovSim's fishery: pure rules of a lake in which several agents fish, month by month."""
