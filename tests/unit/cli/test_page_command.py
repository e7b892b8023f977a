"""`dipp page` serves the files of the built page to this machine alone, with headers, or ends in one line."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.commands import Command
from helpers.paths import ROOT
from helpers.refusals import refused

from dipp.cli.page import ADDRESS, HEADERS, server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built = tmp_path / "play"
    built.mkdir()
    (tmp_path / "secret").write_text("not for the page")
    for name in ("index.html", "page.js", "run.mjs", "run.wasm", "network.onnx"):
        (built / name).write_text(name)
    return built


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    with server(folder, 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"{ADDRESS}:{running.server_port}"
        running.shutdown()
        thread.join()


def answer(address: str, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(address)
    connection.request("GET", path)
    found = connection.getresponse()
    found.read()
    connection.close()
    return found


def test_a_page_that_is_not_built_is_refused_in_one_line(run: Command, tmp_path: Path) -> None:
    code, out, error = run("page", tmp_path)
    assert (code, out) == (1, "")
    assert error.count("\n") == 1
    assert "make page" in error


def test_a_port_in_use_is_refused_in_one_line(address: str, folder: Path) -> None:
    with refused("port"):
        server(folder, int(address.rsplit(":", 1)[1]))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", "text/html"),
        ("page.js", "text/javascript"),
        ("run.mjs", "text/javascript"),
        ("run.wasm", "application/wasm"),
        ("network.onnx", "application/octet-stream"),
    ],
)
def test_files_come_with_their_types_and_the_headers(address: str, name: str, kind: str) -> None:
    found = answer(address, f"/{name}")
    assert (found.status, found.headers.get_content_type()) == (200, kind)
    assert {key: found.headers[key] for key in HEADERS} == HEADERS


def test_nothing_outside_the_folder_is_served(address: str) -> None:
    for path in ("/../secret", "/%2e%2e/secret"):
        assert answer(address, path).status == 404


def test_the_policy_of_the_page_itself_is_that_of_the_server() -> None:
    """Other servers do not send the header, so the page has the policy too, except for frames around it."""
    policy = HEADERS["Content-Security-Policy"].removesuffix("; frame-ancestors 'none'")
    assert f'content="{policy}"' in (ROOT / "web/static/index.html").read_text()
