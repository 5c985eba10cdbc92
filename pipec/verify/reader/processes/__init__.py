"""From classes of threads to automata, and from automata to the network."""
