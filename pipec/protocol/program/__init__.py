"""A network as a program over numbered variables, and the structure of its loops."""
