"""What the scalars of a role are, and where they are the same."""
