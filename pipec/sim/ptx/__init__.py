"""PTX text, read: tokens, the parsed module, calls put in place, where control flow meets again."""
