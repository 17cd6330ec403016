"""Measurements that anyone can repeat: `scripts/bench NAME`."""
