"""A mixed load on a server: `scripts/soak MINUTES`."""
