"""The search for a certificate: which attempts there are, the cases of sizes, and the automaton for one of them."""
