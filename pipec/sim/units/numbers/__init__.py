"""Number formats, and the accumulation and rounding of one MMA instruction."""
