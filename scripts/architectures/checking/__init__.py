"""Runs a model in its engine and in LocalSpec, and compares what they say."""
