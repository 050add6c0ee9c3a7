"""A note at an exact place of a conversation: /after."""
