"""Speculation measured on the machine at hand: every mode answers every prompt in turn."""
