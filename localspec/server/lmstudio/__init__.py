"""The API of LM Studio: models, and what OpenAI has under its paths."""
