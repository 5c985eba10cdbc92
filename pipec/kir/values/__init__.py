"""The scalar values of a role, and where they are uniform."""
