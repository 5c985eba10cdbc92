"""Whether two accesses are in order: clocks, what was last done to each place, and the verdict with its report."""
