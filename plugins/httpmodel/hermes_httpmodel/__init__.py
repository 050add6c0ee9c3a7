"""What plugins for models behind HTTP share: the connection, its faults, settings, and JSON."""
