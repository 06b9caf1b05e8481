# SPDX-License-Identifier: Apache-2.0
"""Pages of Spark's UI as a test asks for them, the history server, and a browser."""

import contextlib
import os
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from testkit import jvm, server
from testkit.waiting import until

_ANSWER_S = 60.0
_BROWSER_S = 120.0
_TABLES = re.compile(r'<table class="table table-sm table-hover">.*?</table>', re.DOTALL)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")


class Answer(NamedTuple):
    """What a web server answered."""

    status: int
    body: str
    location: str | None


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def ask(url: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    """Asks a web server. A redirect of a GET is followed, that of a POST is the answer."""
    request = urllib.request.Request(url, method=method, headers=dict(headers or {}))
    handlers = [] if method == "GET" else [_Stay]
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_ANSWER_S) as answer:
            return Answer(answer.status, answer.read().decode(), None)
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.read().decode(), error.headers.get("Location"))


@contextlib.contextmanager
def history_server(folder: Path, events: Path, class_path: str, **settings: str) -> Iterator[str]:
    """Spark's history server over a folder of event logs; the address of its only application.

    Args:
        folder: Made anew.
        events: The event logs.
        class_path: What the server has beside Spark's own jars; may be empty.
        **settings: Of the server, with `_` for each dot.
    """
    (port,) = server.free_ports(1)
    of_server = {
        "spark.history.ui.port": str(port),
        "spark.history.fs.logDirectory": events.as_uri(),
        "spark.history.fs.update.interval": "1s",
    } | {key.replace("_", "."): value for key, value in settings.items()}
    environment = os.environ | {
        **jvm.environment(),
        "SPARK_DAEMON_CLASSPATH": class_path,
        "SPARK_DAEMON_MEMORY": "600m",
        "SPARK_DAEMON_JAVA_OPTS": jvm.SHORT_LIVED,
        "SPARK_HISTORY_OPTS": " ".join(f"-D{key}={value}" for key, value in of_server.items()),
    }
    command = [
        f"{environment['SPARK_HOME']}/bin/spark-class",
        "org.apache.spark.deploy.history.HistoryServer",
    ]
    root = f"http://{server.HOST}:{port}"

    def applications() -> str:
        with contextlib.suppress(OSError):
            return ask(f"{root}/api/v1/applications").body
        return ""

    with server.running(command, folder, environment) as running:
        running.wait(lambda: '"id"' in applications(), "the history server lists the application")
        name = applications().split('"id" : "')[1].split('"')[0]
        yield f"{root}/history/{name}"


@contextlib.contextmanager
def forwarding(root: str, asked: Callable[[str], None]) -> Iterator[str]:
    """A server that hands requests on to another, and the answers back.

    Args:
        root: The other's address.
        asked: Is called with the path before a request is handed on; if it raises ConnectionError,
            the answer is an error.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                asked(self.path)
                with urllib.request.urlopen(root + self.path, timeout=_ANSWER_S) as answer:
                    status, headers, body = answer.status, answer.headers, answer.read()
            except (ConnectionError, urllib.error.URLError):
                self.send_error(502)
                return
            self.send_response(status)
            for name in ("Content-Type", "Content-Security-Policy"):
                if headers[name]:
                    self.send_header(name, headers[name])
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer((server.HOST, 0), Handler) as forwarder:
        threading.Thread(target=forwarder.serve_forever, daemon=True).start()
        yield f"http://{server.HOST}:{forwarder.server_port}"
        forwarder.shutdown()


def browser() -> str | None:
    """The command of a browser that is installed; None if none is."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def picture(url: str, file: Path, work: Path, *flags: str, size: str = "1440,1300") -> None:
    """Has the browser draw a page into a PNG file."""
    shot = (f"--window-size={size}", "--hide-scrollbars", f"--screenshot={file}")
    _browse(work, "--virtual-time-budget=3000", *shot, *flags, url)
    assert file.stat().st_size > 0


def content_after(url: str, work: Path, milliseconds: int) -> str:
    """The page's content as the browser has it so long after it was loaded."""
    return _browse(work, f"--virtual-time-budget={milliseconds}", "--dump-dom", url)


def _browse(work: Path, *arguments: str) -> str:
    command = browser()
    assert command is not None
    ran = subprocess.run(
        [
            command,
            *("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work}"),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=_BROWSER_S,
        check=True,
    )
    return ran.stdout


def wait_for(url: str, text: str) -> str:
    """Waits until a page has a text; the page."""
    until(lambda: text in ask(url).body, f"{url} says {text!r}", _ANSWER_S)
    return ask(url).body


def column(page: str, title: str, by: str) -> dict[str, str]:
    """What each row says under one title, by what it says under another.

    The rows are those of the tab's first table that has both. Raises LookupError if none has.
    """
    for table in map(ElementTree.fromstring, _TABLES.findall(page)):
        titles = _cells(table, "th")
        if title in titles and by in titles:
            rows = [_cells(row, "td") for row in table.iterfind("tbody/tr")]
            return {row[titles.index(by)]: row[titles.index(title)] for row in rows}
    raise LookupError(f"No table of the page has the columns {title!r} and {by!r}.")


def _cells(part: ElementTree.Element, tag: str) -> list[str]:
    return ["".join(cell.itertext()) for cell in part.iter(tag)]
