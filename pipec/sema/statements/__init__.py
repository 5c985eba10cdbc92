"""The meaning of the statements of a role."""
