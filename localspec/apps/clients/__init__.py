"""Programs that ask the server: coding agents that are launched, editors that are configured."""
