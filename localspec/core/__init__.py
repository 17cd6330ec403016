"""Exact speculative decoding: engine, rounds, proposers, sampling, prefix cache."""
