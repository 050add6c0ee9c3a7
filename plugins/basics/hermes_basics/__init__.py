"""The commands that every conversation has: /help, /status, /new."""
