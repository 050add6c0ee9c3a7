from __future__ import annotations

import json

from hermes_core.adapter import KnownCommand
from hermes_slack.convert import Me, slash
from hermes_slack.manifest import manifest


def known(*names: str) -> list[KnownCommand]:
    return [KnownCommand(name, f"does {name}", f"/{name} TEXT") for name in names]


def test_every_command_has_a_slash_of_its_own_and_reserved_names_get_the_prefix() -> None:
    made = manifest(known("stop", "status"))
    slashes = made.content["features"]["slash_commands"]
    assert [one["command"] for one in slashes] == ["/hermes", "/stop", "/hermes-status"]
    assert slashes[1]["usage_hint"] == "TEXT"
    assert made.left_out == ()
    assert json.loads(json.dumps(made.content)) == made.content


def test_case_31_what_is_over_slacks_25_is_left_out_and_named() -> None:
    made = manifest(known(*(f"c{number}" for number in range(30)), "c" * 32))
    assert len(made.content["features"]["slash_commands"]) == 25
    assert made.left_out == (*(f"c{number}" for number in range(24, 30)), "c" * 32)


def test_each_slash_of_the_manifest_comes_back_as_the_command_that_it_stands_for() -> None:
    for one, name in zip(
        manifest(known("stop", "status", "help")).content["features"]["slash_commands"][1:],
        ("stop", "status", "help"),
        strict=True,
    ):
        payload = {"command": one["command"], "text": "now", "channel_id": "D1", "user_id": "U1"}
        found = slash({**payload, "trigger_id": "1"}, Me("U0AGENT"))
        assert found is not None
        assert found.message.text == f"/{name} now"


def test_socket_mode_has_no_address_and_http_has_one_everywhere() -> None:
    assert "https" not in json.dumps(manifest(known("stop")).content)
    made = manifest(known("stop"), public_url="https://agent.example/").content
    assert made["settings"]["socket_mode_enabled"] is False
    places = [
        *(one["url"] for one in made["features"]["slash_commands"]),
        made["settings"]["event_subscriptions"]["request_url"],
        made["settings"]["interactivity"]["request_url"],
    ]
    assert set(places) == {"https://agent.example/slack/events"}


def test_the_description_of_the_scopes_covers_every_method_that_the_adapter_calls() -> None:
    scopes = manifest().content["oauth_config"]["scopes"]["bot"]
    assert {"chat:write", "reactions:write", "im:history", "channels:history", "commands"} <= set(scopes)
