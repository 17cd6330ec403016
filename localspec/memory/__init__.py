"""The plan: what fits where, and what is conceded for it."""
