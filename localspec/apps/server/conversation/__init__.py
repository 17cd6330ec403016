"""Conversations of all APIs: read from what clients send, written as chat templates read them."""
