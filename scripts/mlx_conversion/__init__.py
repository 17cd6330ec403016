"""Convert a GGUF of the llama family into a folder that mlx-lm loads."""
