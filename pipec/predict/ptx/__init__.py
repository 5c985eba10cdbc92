"""Predicts the time of a kernel from PTX alone: the network used for proofs, with a time for each event."""
