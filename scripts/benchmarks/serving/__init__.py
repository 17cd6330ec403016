"""Servers that benchmarks start, and a slow link to one."""
