"""Prefix caching: what slots hold, and what they gave up, in memory and on disk."""
