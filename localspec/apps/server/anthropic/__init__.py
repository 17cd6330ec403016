"""The API of Anthropic: messages."""
