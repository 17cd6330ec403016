"""Texts read into vectors or scores: batches of them, and what is made of the rows."""
