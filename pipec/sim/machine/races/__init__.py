"""Whether two accesses are ordered: clocks, the last accesses to each place, and the verdict with its report."""
