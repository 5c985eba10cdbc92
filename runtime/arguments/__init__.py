"""Arguments of a call: arrays of several libraries, checked and bound to a kernel's parameters."""
