"""Rows that `localspec bench --share` wrote, and the table of them."""
