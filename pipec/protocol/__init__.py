"""Finds proofs and counterexamples: that no role of a kernel waits for ever, or sizes at which some do.

Works on the network that pipec.verify reads from the emitted PTX. What is found here is not trusted: a proof is a certificate that the
checker of pipec.verify, which knows nothing of this package, has to accept; a counterexample is a run.
"""
