"""Ways to guess what comes next."""
