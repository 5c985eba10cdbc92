"""Messages about tiles: their sizes and types against what copies, multiplications, memory and registers take."""
