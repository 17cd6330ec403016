"""Paths of LocalSpec's own, which show the server to those who look after it."""
