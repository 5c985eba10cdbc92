"""How long a kernel takes, before any GPU runs it: roles and rings as timed events, and what bounds them."""
