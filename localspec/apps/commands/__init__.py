"""The commands, but for chat, serve, bench and prove."""
