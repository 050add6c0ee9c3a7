"""A route that was not approved is not served, and the plugin's others are (P4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest

from hermes_core import http
from hermes_core.approvals import ANY, Approval, change
from hermes_core.config import Config
from hermes_core.hookspecs import hookimpl
from hermes_core.plugins import Plugins
from hermes_core.route import Request, Response, Route
from hermes_core.runtime import Runtime
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import ScriptedModel


class PagesPlugin:
    @hookimpl
    def hermes_routes(self) -> Iterable[Route]:
        async def answer(request: Request) -> Response:
            return Response(200, b"here")

        return [Route("GET", path, answer, open=True) for path in ("/one", "/two")]


@pytest.mark.parametrize(
    ("routes", "codes"),
    [(("GET /one",), [200, 404]), ((ANY,), [200, 200]), ((), [404, 404])],
    ids=["one of two", "any", "none"],
)
async def test_p4_only_approved_routes_are_served(
    tmp_path: Path, routes: tuple[str, ...], codes: list[int]
) -> None:
    approval = Approval(True, approved={"hooks": ("hermes_routes",), "routes": routes})
    change(tmp_path, "pages", lambda old: approval)
    file = tmp_path / "hermes.toml"
    file.write_text(f'[runtime]\ndata_dir = "{tmp_path}"\n[model]\nprovider = "scripted"\n[http]\nport = 0\n')
    config = Config.load(file, {})
    plugins = Plugins(config)
    plugins.add("pages", PagesPlugin())
    plugins.add("scripted", ScriptedModel())
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    runtime = Runtime(
        config, plugins=plugins, store=MemoryStore(), doors=[http.serve], on_ready=ready.set_result
    )
    async with runtime:
        running = asyncio.create_task(runtime.run())
        url = (await asyncio.wait_for(ready, 10)).removeprefix("web ")
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            assert [(await client.get(path)).status_code for path in ("/one", "/two")] == codes
        runtime.stop()
        await running
    problem = plugins.infos["pages"].problem
    assert ("hermes plugins enable pages" in problem) == (404 in codes)
