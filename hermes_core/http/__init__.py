"""Http: one server for the routes of plugins, `/health` and `/openapi.json`; started where `[http]` is written.

Theory of operation. The server is a door of the runtime beside its adapters: it opens when what a
former run left is taken up, and it is the first to close. `site` makes one ASGI application of all
routes, `gate` decides who may call, `document` describes the routes, `server` listens. Nothing here
is imported by a start that has no server.

    who calls      a token where one is configured, else the machine itself (`gate`)
    what they get  JSON; every error is `application/problem+json` (RFC 9457), also those of a fault
    what they see  no path, secret or traceback: a fault has an id that stands in the log beside it

What is no HTTP at all is answered by the server beneath with a bare 400.
"""

from __future__ import annotations

from hermes_core.http.server import check, serve

__all__ = ["check", "serve"]
