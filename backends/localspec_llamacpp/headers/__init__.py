"""What a GGUF says of itself, read without loading it and without trusting it.

`footprint.inspect` reads the header (`header`, `metadata`, `parts`), works out what each layer
keeps (`hyperparameters`, `architectures`, `layers`, `caches`), and refuses what would make
llama.cpp abort (`checks`, `demands`, `vocabulary`).
"""
