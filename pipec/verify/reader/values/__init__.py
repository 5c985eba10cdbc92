"""What registers hold in a class of threads, and what an instruction does to them and to the barriers."""
