"""Number formats, and what one MMA instruction adds up and how it rounds."""
