"""Prefix caching: KV caches in slots, in memory and on disk."""
