"""The proposers: prompt lookup, predictions, grammars, draft models."""
