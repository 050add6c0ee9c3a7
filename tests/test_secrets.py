"""What is taken out of texts (X2): values of variables and files, shapes of tokens, also in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hermes_core.config import Config
from hermes_core.config.secrets import Secrets
from hermes_core.errors import ConfigError, SecretUnset
from hermes_core.veil import MASK, ByteVeil

KNOWN = {"A": "hunter2-hunter2", "B": "hunter2-hunter2-and-more", "C": "er2-and-x", "D": "short"}

TOKENS = [
    "sk-proj-Ab1_" + "x" * 30,
    "sk-ant-api03-" + "aB3-" * 20,
    "xoxb-1234567890-1234567890123-AbCdEf",
    "xoxe.xoxp-1-Mi0yLTEyMzQ1Njc4",
    "xapp-1-A012-345-abcdef",
    "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2_" * 10,
    "glpat-" + "a1B2-" * 5,
    "hf_" + "abCD" * 9,
    "AKIAIOSFODNN7EXAMPLE",
    "AIza" + "a1B2_" * 7,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
]


def knowing() -> Secrets:
    secrets = Secrets(KNOWN)
    secrets.know(KNOWN)
    return secrets


def test_a_secret_that_is_needed_and_not_named_is_said_with_its_key() -> None:
    secrets = Secrets({"TOKEN": "t0ken-of-the-bot"})
    assert secrets.need("adapters.pigeon.token_env", "TOKEN") == "t0ken-of-the-bot"
    with pytest.raises(ConfigError, match=r"adapters\.pigeon\.token_env is empty.*token_env = …"):
        secrets.need("adapters.pigeon.token_env", "")


def test_only_what_can_be_left_out_is_advised_to_be_taken_out() -> None:
    """A key that is needed has a default of the same name; one that stands nowhere cannot be taken out."""
    key = "model.api_key_env"
    written, nowhere = Secrets({}, {key: "hermes.toml"}), Secrets()
    for secrets, read, advised in (
        (written, written.read, True),
        (nowhere, nowhere.read, False),
        (written, written.need, False),
        (nowhere, nowhere.need, False),
    ):
        with pytest.raises(SecretUnset, match="export API_KEY=…") as error:
            read(key, "API_KEY")
        assert (f"or take {key} out" in error.value.advice) is advised, secrets
        assert error.value.variables == ("API_KEY",)


def test_all_that_are_needed_and_not_set_are_named_in_one_error() -> None:
    secrets = Secrets({"B": "set"})
    assert secrets.need_each({"one.b_env": "B"}) == ["set"]
    with pytest.raises(SecretUnset) as error:
        secrets.need_each({"one.a_env": "A", "one.b_env": "B", "one.c_env": "C"})
    assert error.value.variables == ("A", "C")
    assert "one.a_env" in error.value.message
    assert "one.c_env" in error.value.message
    assert error.value.advice == "Set them before the start (export A=… C=…)."


@pytest.mark.parametrize("token", TOKENS, ids=[token[:6] for token in TOKENS])
def test_x2_what_has_the_shape_of_a_token_is_hidden_whosever_it_is(token: str) -> None:
    for text in (token, f"key={token}", f'"{token}",', f"({token})\n", f"https://x/bot/{token}/y"):
        hidden = Secrets().hide(text)
        assert token not in hidden, text
        assert MASK in hidden


@pytest.mark.parametrize(
    "text",
    [
        "a task-based approach with risk-assessment-documentation and sk-folding-cube-container-main",
        "through the light, 12:30:45, at 10:AA",
        "the branch feature/sk-12 and xox-large, AKIA is a village, gh_pages, hf_hub",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ],
)
def test_what_only_resembles_a_token_stays(text: str) -> None:
    assert Secrets().hide(text) == text


def test_x2_the_longest_secret_goes_first_and_what_is_short_stays() -> None:
    assert knowing().hide("hunter2-hunter2-and-more; short") == "***; short"


def test_x2_a_secret_is_hidden_as_it_stands_in_a_url_too() -> None:
    secrets = Secrets({"T": "a:b/c d+e"})
    secrets.know(["T"])
    assert secrets.hide("https://x/?t=a%3Ab%2Fc%20d%2Be and a:b/c d+e") == "https://x/?t=*** and ***"


def test_x2_what_the_config_names_is_hidden_though_nobody_has_read_it() -> None:
    tables = {
        "adapters": {"off": {"enabled": False, "token_env": "OFF_TOKEN"}},
        "plugins": {"list": {"servers": [{"key_env": "NESTED"}]}},
    }
    config = Config.of(tables, environ={"OFF_TOKEN": "plain-text-one", "NESTED": "plain-text-two"})
    assert config.secrets.hide("plain-text-one plain-text-two") == "*** ***"


def test_x2_what_looks_like_a_secret_by_the_name_of_its_variable_is_known_before_any_config() -> None:
    secrets = Secrets.that_look_so(
        {"MY_API_KEY": "value-one", "DB_PASSWORD_1": "value-two", "MONKEY": "value-3"}
    )
    assert secrets.hide("value-one value-two value-3") == "*** *** value-3"


def test_x2_a_secret_can_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from-a-file\n")
    secrets = Secrets({"API_KEY_FILE": str(file)})
    assert secrets.read("model.api_key_env", "API_KEY") == "from-a-file"
    assert secrets.hide("it is from-a-file") == "it is ***"
    assert Secrets({"API_KEY_FILE": str(file), "API_KEY": "itself"}).read("x", "API_KEY") == "itself"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"model\.api_key_env: the file that API_KEY_FILE names cannot be read: No such file"),
        (b"\xff\xfe", "it is no text of a few lines"),
        (b"x" * 70_000, "it is no text of a few lines"),
        (b" \n", "the environment variable API_KEY is not set"),
    ],
)
def test_a_file_that_holds_no_secret_is_said_so(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        Secrets({"API_KEY_FILE": str(file)}).read("model.api_key_env", "API_KEY")


@given(
    st.lists(
        st.sampled_from(
            ["hunter2", "-hunter2", "-and", "-more", "-x", "h", "hunt", "er2-and-x", "short", " ", "ä"]
        ),
        max_size=12,
    ),
    st.data(),
)
def test_x2_in_pieces_no_secret_is_shown_and_nothing_else_is_lost(
    words: list[str], data: st.DataObject
) -> None:
    text = "".join(words)
    secrets = knowing()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    veil = secrets.veil()
    shown = "".join([*map(veil.feed, pieces), veil.rest()])
    hidden = [value for value in KNOWN.values() if len(value) >= 6]
    assert not any(value in shown for value in hidden)
    if not any(value in text for value in hidden):
        assert shown == text


@pytest.mark.parametrize("token", TOKENS[:5], ids=[token[:6] for token in TOKENS[:5]])
def test_x2_a_token_of_an_unknown_secret_is_held_back_in_pieces_from_its_shape_on(token: str) -> None:
    veil = Secrets().veil()
    pieces = [token[:6], *token[6:], " and more"]
    shown = "".join([*(veil.feed(piece) for piece in pieces), veil.rest()])
    assert token not in shown
    assert shown.endswith("*** and more")


LONG = [
    *TOKENS,
    "-----BEGIN PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA+/=\n" * 90 + "-----END PRIVATE KEY-----",
    "eyJhbGciOiJIUzI1NiJ9.eyJ" + "aB3_" * 300 + ".dozjgNryP4J3jVmNHl0w5N",
    "hunter2-hunter2-and-more",
    "gr\u00fc\u00dfe-aus-dem-tresor",
]


@pytest.mark.parametrize("size", [1, 2, 5, 64, 4096])
@pytest.mark.parametrize("token", LONG, ids=[token[:11] for token in LONG])
def test_x2_in_bytes_that_come_in_pieces_no_part_of_a_secret_is_kept(token: str, size: int) -> None:
    data = b"\xff\x00 before: " + token.encode() + b" after \xfe" * 3
    veil = ByteVeil(["hunter2-hunter2-and-more", "gr\u00fc\u00dfe-aus-dem-tresor", "short"])
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    kept = b"".join([*map(veil.feed, pieces), veil.rest()])
    assert kept == b"\xff\x00 before: *** after \xfe after \xfe after \xfe"


@example([b"123456", b"sk-", b"ghp_", b"123456", b"123456", b"123456"])  # no token begins inside a word
@given(
    st.lists(
        st.sampled_from([b"\xff", b"\n", b"-----BEGIN ", b"ghp_", b"123456", b":AA", b"sk-", b"x", b"\xc3"])
    )
)
def test_bytes_that_hold_no_secret_come_out_as_they_went_in(pieces: list[bytes]) -> None:
    veil, whole = ByteVeil(["hunter2-hunter2"]), b"".join(pieces)
    assume(MASK not in Secrets().hide(whole.decode("latin-1")))
    assert b"".join([*map(veil.feed, pieces), veil.rest()]) == whole


def test_a_text_that_holds_no_secret_comes_through_piece_by_piece() -> None:
    veil = knowing().veil()
    assert [veil.feed(piece) for piece in ("Hello", " wor", "ld, ", "hunt", "ing", " day")] == [
        "Hello",
        " wor",
        "ld, ",
        "",
        "hunting",
        " day",
    ]
