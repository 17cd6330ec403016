"""The terminal chat: a conversation that is typed, drawn as it comes, and kept."""
