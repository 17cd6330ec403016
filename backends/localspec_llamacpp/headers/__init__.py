"""The header of a GGUF, read without loading the model and without trusting its sizes."""
