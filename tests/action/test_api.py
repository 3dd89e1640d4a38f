"""The client of GitHub's API, when things go wrong."""

from __future__ import annotations

import pytest

from reconciler.action.api import GitHub, GitHubError
from reconciler.action.comments import put_comment
from tests.servers.github_api import BOT, REPOSITORY, TOKEN, GitHubApi

MARKER = "<!-- lancens plan label=default -->"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("urllib3.util.retry.time.sleep", found.append)
    return found


@pytest.fixture
def github(api: GitHubApi, pauses: list[float]) -> GitHub:
    return GitHub(api_url=api.url, graphql_url=f"{api.url}/graphql", repository=REPOSITORY, token=TOKEN)


@pytest.mark.parametrize("number", [0, 1, 99, 100, 101, 250])
def test_lists_are_read_to_their_end(api: GitHubApi, github: GitHub, number: int) -> None:
    for one in range(number):
        api.add_comment(7, str(one))
    found = [comment["body"] for comment in github.pages("/issues/7/comments")]
    assert found == [str(one) for one in range(number)]


def test_a_page_that_failed_for_good_is_an_error(api: GitHubApi, github: GitHub) -> None:
    api.fail("GET", "/comments", 502, times=9)
    with pytest.raises(GitHubError, match="502"):
        list(github.pages("/issues/7/comments"))


def test_a_page_that_is_no_list_is_an_error(api: GitHubApi, github: GitHub) -> None:
    api.fail("GET", "/comments", 200)
    with pytest.raises(GitHubError, match="no JSON list"):
        list(github.pages("/issues/7/comments"))


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_reading_is_tried_again(api: GitHubApi, github: GitHub, pauses: list[float], status: int) -> None:
    api.fail("GET", "/comments", status, times=3)
    assert list(github.pages("/issues/7/comments")) == []
    assert len(api.calls) == 4
    assert pauses == sorted(pauses)
    assert pauses


def test_a_query_is_tried_again(api: GitHubApi, github: GitHub) -> None:
    api.fail("POST", "/graphql", 502)
    assert github.login == BOT


def test_a_comment_is_not_made_twice_when_what_became_of_it_is_not_known(api: GitHubApi, github: GitHub) -> None:
    api.fail("POST", "/issues/7/comments", 502)
    with pytest.raises(GitHubError, match="502"):
        put_comment(github, 7, MARKER, "text")
    assert [call for call in api.calls if call.endswith("/issues/7/comments")].count(
        f"POST /repos/{REPOSITORY}/issues/7/comments"
    ) == 1


@pytest.mark.parametrize("status", [403, 429])
def test_a_limit_is_waited_for_as_long_as_github_says(
    api: GitHubApi, github: GitHub, pauses: list[float], status: int
) -> None:
    api.fail("POST", "/issues/7/comments", status, headers={"Retry-After": "17"})
    put_comment(github, 7, MARKER, "text")
    assert pauses == [17.0]
    assert len(api.comments) == 1


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (429, {"Retry-After": "3000", "X-RateLimit-Remaining": "0"}),
        (403, {"X-RateLimit-Remaining": "0"}),
        (403, {"Retry-After": "3000"}),
    ],
)
def test_a_limit_of_an_hour_is_reported(
    api: GitHubApi, github: GitHub, pauses: list[float], status: int, headers: dict[str, str]
) -> None:
    api.fail("GET", "/comments", status, headers=headers)
    with pytest.raises(GitHubError, match="run again later"):
        list(github.pages("/issues/7/comments"))
    assert pauses == []


def test_a_redirect_is_not_followed(api: GitHubApi, github: GitHub) -> None:
    api.fail("GET", "/comments", 301, headers={"Location": "http://127.0.0.1:9/elsewhere"})
    with pytest.raises(GitHubError, match="not followed"):
        list(github.pages("/issues/7/comments"))


def test_no_answer_is_one_clear_error_without_the_token(pauses: list[float]) -> None:
    dead = "http://127.0.0.1:9"
    github = GitHub(api_url=dead, graphql_url=f"{dead}/graphql", repository=REPOSITORY, token=TOKEN)
    with pytest.raises(GitHubError) as error:
        github.get("/pulls/7")
    assert "no answer" in str(error.value)
    assert TOKEN not in str(error.value)
    assert len(pauses) == 2


def test_without_a_token_nothing_is_sent(api: GitHubApi) -> None:
    github = GitHub(api_url=api.url, graphql_url=api.url, repository=REPOSITORY, token="")
    with pytest.raises(GitHubError, match="set the input `token`"):
        github.get("/pulls/7")
    assert api.calls == []


def test_a_comment_that_equals_what_is_there_is_not_written(api: GitHubApi, github: GitHub) -> None:
    put_comment(github, 7, MARKER, "text")
    put_comment(github, 7, MARKER, "text")
    assert not [call for call in api.calls if call.startswith("PATCH")]
    put_comment(github, 7, MARKER, "other")
    assert len([call for call in api.calls if call.startswith("PATCH")]) == 1
    assert api.comments_on(7) == [f"{MARKER}\nother"]


def test_a_comment_is_looked_for_among_hundreds(api: GitHubApi, github: GitHub) -> None:
    for number in range(230):
        api.add_comment(7, f"comment {number}", login="octocat")
    put_comment(github, 7, MARKER, "text")
    put_comment(github, 7, MARKER, "newer")
    assert len(api.comments) == 231
