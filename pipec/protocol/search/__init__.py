"""The search for a certificate: the sequence of attempts, the cases of sizes, and the automaton for one of them."""
