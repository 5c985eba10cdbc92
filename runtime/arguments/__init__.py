"""What a caller passes: arrays of several libraries, checked, and bound to a kernel's parameters."""
