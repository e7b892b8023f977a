"""`dipp page`: serve the page that runs in a browser, only to this machine."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer

from dipp.errors import DippError

ADDRESS = "127.0.0.1"
BUILT = Path(__file__).parents[3] / "site" / "play"
"""Folder into which `make page` builds the page, in a checkout."""
HEADERS = {
    # Without the first two headers, browsers do not let WebAssembly use threads.
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; "
        "img-src 'self' blob:; media-src 'self' blob:; style-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
KINDS = {
    ".mjs": "text/javascript",
    ".js": "text/javascript",
    ".wasm": "application/wasm",
    ".onnx": "application/octet-stream",
}
"""Media types by endings of names; some systems have wrong types for these, or none."""


class Handler(SimpleHTTPRequestHandler):
    """A request handler that serves the files of one folder with `HEADERS`, and logs nothing."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | KINDS

    def end_headers(self) -> None:
        """Send `HEADERS` after the headers of the file."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing, so that there is no trace of requests."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the built page.

    Args:
        folder: Folder of the built page.
        port: Port of this machine; 0 takes any free port.

    Raises:
        DippError: The page is not built, or the port cannot be used.
    """
    if not (folder / "index.html").is_file():
        raise DippError(
            "page", f"is not built in {folder}", "run `make page` in a checkout of dipp, or name its folder"
        )
    try:
        return ThreadingHTTPServer((ADDRESS, port), partial(Handler, directory=str(folder)))
    except OSError as error:
        raise DippError("port", f"{port} cannot be used ({error.strerror})", "take another with --port") from None


def page(
    folder: Annotated[Path, typer.Argument(help="Folder of the built page.", show_default="site/play")] = BUILT,
    port: Annotated[int, typer.Option(help="Port of this machine; 0 takes any free port.", min=0, max=65535)] = 8321,
) -> None:
    """Serve the page to this machine: pictures that you drag into it never leave the browser."""
    with server(folder, port) as running:
        typer.echo(f"http://{ADDRESS}:{running.server_port}/  (Ctrl-C ends it)")
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            typer.echo("")
