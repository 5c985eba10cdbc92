"""Predicts the time of a PTX kernel of any compiler, given its launch: some blocks run in the simulator, and what they did is timed."""
