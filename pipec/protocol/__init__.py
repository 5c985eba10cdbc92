"""Finds proofs and counterexamples: that no role of a kernel waits for ever, or sizes at which some roles do.

Works on the network that pipec.verify reads from the emitted PTX. The results are not trusted: a proof is a certificate that the checker
of pipec.verify, which is independent of this package, must accept; a counterexample is a run.
"""
