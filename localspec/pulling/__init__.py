"""Getting weights: what a hub lists, what would fit, the download."""
