"""Control flow, and the slice of it on which the protocol depends."""
