"""All messages, in folders like those of `pipec.checks`; the codes of a family (E03xx) are in one file where possible."""
