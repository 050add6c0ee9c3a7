"""Hermes plugin: run a command as a tool, in a process group that can be stopped whole."""
