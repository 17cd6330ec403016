"""Who answers in a chat: a model in this process, or a server."""
