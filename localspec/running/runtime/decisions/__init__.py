"""Decisions: typed questions about a state, answered by probabilities; no text is written."""
