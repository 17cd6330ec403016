"""Sampling: parameters, distributions, random numbers, log probabilities."""
