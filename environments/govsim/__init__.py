"""GovSim's fishery: pure rules of a lake that several agents fish, month by month."""
