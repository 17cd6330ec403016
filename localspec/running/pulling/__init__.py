"""Getting weights: the hub's listing, the fitting quantisation, the download."""
