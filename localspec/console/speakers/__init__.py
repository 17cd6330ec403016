"""The two kinds of models to talk to: in this process, and behind a server."""
