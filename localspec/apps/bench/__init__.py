"""Measurements of speculation on this machine: every mode answers every prompt in turn."""
