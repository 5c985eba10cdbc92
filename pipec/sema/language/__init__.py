"""The tables of the language: its operations, its element functions, and the names that other languages have for them."""
