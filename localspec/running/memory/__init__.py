"""The memory plan: the place of each part of a pair, and the concessions for it."""
