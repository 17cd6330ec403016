"""An HTTP server with the APIs that editors, agents and libraries use."""
