"""Whether a certificate proves that no role waits for ever: of the network alone, whatever the PTX is from which it was read."""
