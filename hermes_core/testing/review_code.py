"""Review of code: what can be seen in a plugin's source without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["PUBLIC", "blocking", "privileged", "swallowed"]

PUBLIC: Final = frozenset(
    {
        "adapter",
        "checks",
        "commands",
        "config",
        "download",
        "errors",
        "file",
        "history",
        "hookspecs",
        "job",
        "markup",
        "messages",
        "models",
        "pacing",
        "people",
        "reading",
        "recent",
        "route",
        "rules",
        "sse",
        "testing",
        "tools",
        "writing",
    }
)
"""The modules of `hermes_core` that a plugin may import; the others change without notice."""

_BLOCKING: Final = {
    "time.sleep": "await asyncio.sleep(…)",
    "os.system": "a Program (hermes_core.tools)",
    "os.popen": "a Program (hermes_core.tools)",
    "subprocess.run": "a Program (hermes_core.tools)",
    "subprocess.call": "a Program (hermes_core.tools)",
    "subprocess.check_call": "a Program (hermes_core.tools)",
    "subprocess.check_output": "a Program (hermes_core.tools)",
    "subprocess.Popen": "a Program (hermes_core.tools)",
    "urllib.request.urlopen": "httpx.AsyncClient, or await asyncio.to_thread(…)",
    "socket.create_connection": "await asyncio.open_connection(…)",
    "requests.get": "httpx.AsyncClient",
    "requests.post": "httpx.AsyncClient",
    "requests.put": "httpx.AsyncClient",
    "requests.delete": "httpx.AsyncClient",
    "requests.request": "httpx.AsyncClient",
    "httpx.get": "httpx.AsyncClient",
    "httpx.post": "httpx.AsyncClient",
    "httpx.request": "httpx.AsyncClient",
    "input": "a question in the chat",
}


def blocking(file: Path) -> Iterator[tuple[int, str]]:
    """Calls in coroutine functions that stop the event loop: the line, and what is wrong with what stands there."""
    tree = _parsed(file)
    names = _imported(tree)
    for function in ast.walk(tree):
        if isinstance(function, ast.AsyncFunctionDef):
            for node in _own(function):
                if isinstance(node, ast.Call):
                    called = _dotted(node.func, names)
                    if called in _BLOCKING:
                        stops = (
                            f"{called} in the coroutine {function.name} stops the event loop for everybody"
                        )
                        yield node.lineno, f"{stops}; use {_BLOCKING[called]}"


def privileged(file: Path) -> Iterator[tuple[int, str]]:
    """Imports of what is not for plugins: modules of the core that are not public, and private names (P1)."""
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.Import):
            imported = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for module, name in imported:
            parts = [*module.split("."), *([name] if name else [])]
            if parts[0] != "hermes_core" or len(parts) == 1:
                continue
            if parts[1] not in PUBLIC and parts[1] != "__version__":
                yield node.lineno, f"hermes_core.{parts[1]} is not for plugins: it changes without notice"
            elif any(part.startswith("_") and not part.startswith("__") for part in parts):
                yield node.lineno, f"{'.'.join(parts)} is private"


def swallowed(file: Path) -> Iterator[tuple[int, str]]:
    """Handlers in coroutine functions that take a cancellation for an error: a stop would not end them (I3)."""
    for function in ast.walk(_parsed(file)):
        if isinstance(function, ast.AsyncFunctionDef):
            for node in _own(function):
                if isinstance(node, ast.ExceptHandler) and _catches_all(node) and not _raises(node):
                    takes = f"the coroutine {function.name} catches everything, its cancellation too"
                    yield node.lineno, f"{takes}; catch Exception, or raise again"


def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def _own(function: ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    ahead: list[ast.AST] = list(function.body)
    while ahead:
        node = ahead.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            ahead.extend(ast.iter_child_nodes(node))


def _imported(tree: ast.Module) -> dict[str, str]:
    """What the names in this module stand for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, names)}.{node.attr}"
    return ""


def _catches_all(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id == "BaseException") for kind in kinds)


def _raises(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(node, ast.Raise) for node in ast.walk(handler))
