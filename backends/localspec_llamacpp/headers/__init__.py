"""What a GGUF says of itself, read without loading it and without trusting its sizes."""
