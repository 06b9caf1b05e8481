# SPDX-License-Identifier: Apache-2.0
"""The program of an S3 server: `python -m testkit.s3_server <host> <port>`.

It answers one request at a time. So a put on a condition is decided and carried out before the next
one, as a real store does; the library alone looks and writes in two steps.
"""

import sys

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

if __name__ == "__main__":
    host, port = sys.argv[1:]
    run_simple(host, int(port), DomainDispatcherApplication(create_backend_app), threaded=False)
