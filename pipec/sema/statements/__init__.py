"""What the statements of a role mean."""
