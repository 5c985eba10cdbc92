"""Messages about the text: syntax, names, types, compile-time values, conditions, what a target lacks."""
