"""The API of LM Studio: models, and OpenAI's API under its paths."""
