"""The API of Ollama, as its client libraries and editors use it."""
