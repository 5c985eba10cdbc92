"""The tables of the language: operations, element functions, and the names that other languages use for them."""
