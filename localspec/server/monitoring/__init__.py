"""How a server is watched: metrics, status, the log of requests."""
