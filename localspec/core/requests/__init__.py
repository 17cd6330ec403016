"""Requests through one loaded model: slots, rounds, replies, figures."""
