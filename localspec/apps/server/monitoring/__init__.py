"""Monitoring of a server: metrics, status, the log of requests."""
