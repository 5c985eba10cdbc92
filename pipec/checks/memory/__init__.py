"""What a CTA has: shared memory, tensor memory, registers; and the order of accesses to global memory."""
