"""Structured output: the tokens that a grammar allows next, as a mask over the vocabulary."""
