"""What happens to a message that comes while the agent works: /stop, /interrupt, /queue, /followup, /busy."""
