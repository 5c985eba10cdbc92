"""Which way control goes, and the part of it on which the protocol depends."""
