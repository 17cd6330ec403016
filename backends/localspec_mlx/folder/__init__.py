"""What a model folder says of itself, read without trusting it."""
