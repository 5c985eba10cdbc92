"""The time of a kernel of which only the PTX is there: the network that proofs are about, with a time for each event."""
