"""How a model wants to be asked: chat templates, tool calls, fill-in-the-middle."""
