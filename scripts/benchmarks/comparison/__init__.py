"""Servers that people would run instead, beside ours: what `scripts/bench peers` is made of."""
