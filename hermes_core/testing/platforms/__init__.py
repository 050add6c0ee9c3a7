"""Strict fakes of chat platforms, over real sockets on loopback."""
