"""Redirect the running turn without losing its work: /steer."""
