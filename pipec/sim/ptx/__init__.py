"""The PTX front end: tokens, the parsed module, inlined calls, reconvergence points."""
