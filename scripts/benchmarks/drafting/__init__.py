"""Models of middle size with drafting heads, made of random numbers."""
