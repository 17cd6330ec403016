"""The parts of benchmarks with pictures."""
