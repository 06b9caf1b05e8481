# SPDX-License-Identifier: Apache-2.0
"""The program of an S3 server: `python -m testkit.s3_server <host> <port> <delay in ms>`.

Each request waits for the delay first, as on a network, at the same time as others. Then it answers
one request at a time. So a put on a condition is decided and carried out before the next one, as a
real store does; the library alone looks and writes in two steps.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

App = Callable[[Any, Any], Iterable[bytes]]


def delayed(app: App, seconds: float) -> App:
    """An application that answers one request at a time, each after a delay."""
    turn = threading.Lock()

    def answer(environ: Any, start: Any) -> Iterable[bytes]:
        time.sleep(seconds)
        with turn:
            return app(environ, start)

    return answer


if __name__ == "__main__":
    host, port, delay_ms = sys.argv[1:]
    app = delayed(DomainDispatcherApplication(create_backend_app), int(delay_ms) / 1000)
    run_simple(host, int(port), app, threaded=True)
