"""A system prompt, and a memory file for everything and for each conversation."""
