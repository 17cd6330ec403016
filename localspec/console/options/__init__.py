"""The options of commands, each a typed field of a frozen record."""
