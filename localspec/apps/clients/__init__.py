"""Coding agents that are launched, to ask the server."""
