"""An HTTP server that speaks the APIs which editors, agents and libraries speak."""
