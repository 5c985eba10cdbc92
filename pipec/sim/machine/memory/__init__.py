"""What a kernel can address: shared, global and flat memories, and tensor memory."""
