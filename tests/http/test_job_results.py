"""Results over HTTP: when there is one, page by page, and what is left after a bad end (H, E8, J10)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.http.inside import Inside, problem


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[Inside]:
    async with Inside(tmp_path) as one:
        yield one


async def test_a_result_is_read_page_by_page(tmp_path: Path) -> None:
    """(J10)"""
    async with Inside(tmp_path, config={"jobs": {"page_chars": 4}}) as house:
        id_ = await house.job("echo", text="0123456789")
        await house.until(id_, "done")
        read, cursor, more = "", "", True
        while more:
            query = {"cursor": cursor} if cursor else {}
            page = (await house.client.get(f"/jobs/{id_}/result", params=query)).json()
            assert len(page["output"]) <= 4
            read, cursor, more = read + page["output"], page["next_cursor"], page["more"]
        assert read == "0123456789"
        assert page["status"] == "done"
        last = await house.client.get(f"/jobs/{id_}/result", params={"cursor": cursor})
        assert (last.status_code, last.json()["output"]) == (200, "")


async def test_before_the_end_there_is_no_result_without_partial_output(house: Inside) -> None:
    id_ = await house.job("hold", name="a")
    await house.until_begun("a")
    for query in ("", "?cursor=", "?cursor=0"):
        answer = await house.client.get(f"/jobs/{id_}/result{query}")
        assert problem(answer, 409)["job_status"] == "running"
        assert "retry-after" in answer.headers


async def test_partial_output_is_read_with_a_cursor_before_the_end(house: Inside) -> None:
    """(E8)"""
    id_ = await house.job("hold", name="a", said="so far")
    await house.until_begun("a")
    problem(await house.client.get(f"/jobs/{id_}/result"), 409)
    for query in ("cursor=", "cursor=0"):
        answer = await house.client.get(f"/jobs/{id_}/result?{query}")
        assert (answer.status_code, answer.json()["output"]) == (200, "so far")
        assert (answer.json()["status"], answer.json()["more"]) == ("running", False)
        assert "retry-after" in answer.headers
    nothing_new = await house.client.get(f"/jobs/{id_}/result?cursor={answer.json()['next_cursor']}")
    assert (nothing_new.status_code, nothing_new.json()["output"]) == (200, "")


@pytest.mark.parametrize("said", ["", "so far"], ids=["silent", "with output"])
@pytest.mark.parametrize("end", ["cancelled", "failed"])
async def test_after_a_bad_end_only_partial_output_is_left(house: Inside, end: str, said: str) -> None:
    """(E8)"""
    if end == "failed":
        id_ = await house.job("fail", said=said)
    else:
        id_ = await house.job("hold", name="a", said=said)
        await house.until_begun("a")
        await house.client.delete(f"/jobs/{id_}")
    await house.until(id_, end)
    answer = await house.client.get(f"/jobs/{id_}/result")
    assert problem(answer, 409)["job_status"] == end
    assert "retry-after" not in answer.headers
    answer = await house.client.get(f"/jobs/{id_}/result?cursor=0")
    if said:
        assert (answer.status_code, answer.json()["output"], answer.json()["status"]) == (200, said, end)
    else:
        problem(answer, 409)


async def test_a_job_that_is_done_and_said_nothing_has_an_empty_result(house: Inside) -> None:
    id_ = await house.job("echo")
    await house.until(id_, "done")
    answer = await house.client.get(f"/jobs/{id_}/result")
    assert (answer.status_code, answer.json()["output"], answer.json()["more"]) == (200, "", False)


@pytest.mark.parametrize("query", ["cursor=x", "cursor=-1", "cursor=" + "9" * 40, "cursor=1&cursor=2"])
async def test_what_is_no_cursor_is_refused(house: Inside, query: str) -> None:
    id_ = await house.job("echo", text="x")
    await house.until(id_, "done")
    problem(await house.client.get(f"/jobs/{id_}/result?{query}"), 422)


async def test_a_result_that_was_removed_is_gone(house: Inside, tmp_path: Path) -> None:
    id_ = await house.job("command", line="echo kept")
    await house.until(id_, "done")
    assert (await house.client.get(f"/jobs/{id_}/result")).json()["output"] == "kept\n"
    (tmp_path / "jobs" / f"{id_}.out").unlink()
    answer = await house.client.get(f"/jobs/{id_}/result")
    assert str(tmp_path) not in problem(answer, 410)["detail"]
    assert (await house.client.get(f"/jobs/{id_}")).json()["status"] == "done"
