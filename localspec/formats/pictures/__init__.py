"""Pictures as files, turned into pixels."""
