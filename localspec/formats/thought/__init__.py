"""The thoughts of a reply: where they are, and a budget for them."""
