"""The API of OpenAI: chat, completions, responses, models."""
