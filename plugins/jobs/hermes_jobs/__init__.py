"""Jobs for the model and for people: look, read, stop."""
