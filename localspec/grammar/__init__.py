"""Structured output: what a grammar allows next, as a mask over the vocabulary."""
