"""PTX text, read: tokens, the parsed module, inlined calls, where control flow meets again."""
