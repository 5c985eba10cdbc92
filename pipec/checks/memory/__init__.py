"""The resources of a CTA: shared memory, tensor memory, registers; and the order of accesses to global memory."""
