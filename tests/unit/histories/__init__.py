"""Random histories of one service: the agent runs for real, what lies beyond it is a host in memory."""
