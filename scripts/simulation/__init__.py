"""The depth controller against texts and hardware that are not at hand."""
