"""Hermes plugin: who may talk to the agent, and what it may do without being asked."""
