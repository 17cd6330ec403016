"""From logits to a token: sampling parameters, distributions, random numbers, log probabilities."""
