"""What typedbatch uses of lz4, which has no types of its own."""
