"""The engine beside a bare loop, beside llama-bench, and beside a model that costs nothing."""
