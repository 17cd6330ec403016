"""Texts that replies may repeat: files that the user names, and kept replies, indexed on disk."""
