"""What an expression means: values folded at compile time, values typed for run time, tiles and slices."""
