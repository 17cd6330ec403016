"""Writing down how another engine runs a pair: `localspec export`."""
