"""What typedbatch uses of RLlib, which is installed for benchmarks and a few tests only."""
