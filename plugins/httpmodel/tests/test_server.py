"""What `[model]` says about a server: what is wrong is named, and a key goes to its own address only."""

from __future__ import annotations

import pytest

from hermes_core.config import ModelSettings, Secrets
from hermes_core.errors import ConfigError
from hermes_httpmodel.server import Provider, Server

ACME = Provider("Acme", "https://api.acme.test/v1", "ACME_KEY", "anvil-1", "http://127.0.0.1:8000/v1")


def server(
    name: str = "m", base_url: str = "", key: str = "", timeout: float = 1.0, **environ: str
) -> Server:
    """The server that `[model]` would describe in this environment."""
    settings = ModelSettings("acme", name, base_url, key, timeout, secrets=Secrets(environ))
    return Server.of(settings, ACME)


def test_what_is_given_is_cleaned_and_what_is_not_is_the_providers_own() -> None:
    assert server(" m ", " http://h/v1/ ", timeout=2.0) == Server("m", "http://h/v1", None, 2.0)
    assert server(ACME_KEY="k") == Server("m", "https://api.acme.test/v1", "k", 1.0, images=True)


@pytest.mark.parametrize(
    ("base_url", "key"),
    [
        pytest.param("", "own", id="its own address"),
        pytest.param("https://API.acme.test:443/v1", "own", id="its own address, written in another way"),
        pytest.param("http://api.acme.test/v1", None, id="its own host without TLS"),
        pytest.param("https://api.acme.test:444/v1", None, id="another port of its host"),
        pytest.param("https://acme.test/v1", None, id="another host"),
        pytest.param("https://api.acme.test.evil.test/v1", None, id="a host that begins like it"),
        pytest.param("https://api.acme.test@evil.test/v1", None, id="a name that looks like it"),
    ],
)
def test_a_providers_own_key_goes_to_its_own_address_only(base_url: str, key: str | None) -> None:
    assert server(base_url=base_url, ACME_KEY="own").key == key
    assert server(base_url=base_url, key="MINE", MINE="mine", ACME_KEY="own").key == "mine"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param({"name": " "}, r"\[model\] name.*anvil-1", id="no name"),
        pytest.param({}, "Acme wants an API key, and ACME_KEY is not set", id="no key"),
        pytest.param({"key": "MINE"}, "MINE", id="a key that is named and not set"),
        pytest.param({"base_url": "127.0.0.1:80"}, r"\[model\] base_url.*8000", id="no scheme"),
        pytest.param({"base_url": "http://"}, r"\[model\] base_url", id="no host"),
        pytest.param({"base_url": "http://h:port/v1"}, r"\[model\] base_url", id="no address"),
        pytest.param({"base_url": "ftp://h/v1"}, r"\[model\] base_url", id="another scheme"),
        pytest.param({"base_url": "http://h", "timeout": 0.0}, r"\[model\] timeout", id="no time"),
        pytest.param({"key": "MINE", "MINE": "a b"}, "holds no API key", id="a key of two words"),
        pytest.param({"key": "MINE", "MINE": "ключ"}, "holds no API key", id="a key that no header can hold"),
    ],
)
def test_what_is_missing_or_wrong_is_named(given: dict[str, str | float], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        server(**given)  # type: ignore[arg-type]  # a table of different keys


def test_a_server_that_is_shown_shows_no_key() -> None:
    assert "k3y" not in repr(server(ACME_KEY="k3y"))
