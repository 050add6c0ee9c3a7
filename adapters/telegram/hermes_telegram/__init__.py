"""Hermes on Telegram: private chats, groups with privacy mode, forum topics; by polling or a webhook."""
