"""The engine beside a bare loop, llama-bench, a model that costs nothing, and plain decoding."""
