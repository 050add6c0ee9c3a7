"""Hermes in Slack: threads, direct chats, mentions and slash commands, over Socket Mode or signed HTTP."""
