"""Drafting heads: what they read of their target, how they are loaded, and how they draft."""
