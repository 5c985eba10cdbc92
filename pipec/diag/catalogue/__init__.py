"""All messages, in folders like those of `pipec.checks`; the codes of a family (E03xx) stand in one file where they can."""
