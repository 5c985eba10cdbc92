"""Forms of sizes, and conditions on them: their values, their ranges, what a launch can check of them."""
