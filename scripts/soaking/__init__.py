"""A mixed load on a server for as long as is wished: `scripts/soak MINUTES`."""
