"""What the command line does, but for chat, serve, bench and prove."""
