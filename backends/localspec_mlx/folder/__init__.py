"""The files of a model folder, read without trusting them."""
