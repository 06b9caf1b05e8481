# SPDX-License-Identifier: Apache-2.0
"""Live rescaling of stateful Structured Streaming queries: the Python half of Megaphone for Spark.

`configure` prepares a session, `options` has its settings, `Megaphone` is the handle on a running
query; `Plan`, `Relocations` and `Drain` are what its verbs return. All errors derive from
`MegaphoneError`; `spark_megaphone.errors` has them by name, `spark_megaphone.conf` the
configuration keys. Importing the package imports neither Spark nor py4j.
"""

from spark_megaphone import conf, errors
from spark_megaphone._session import configure, options
from spark_megaphone._version import __version__
from spark_megaphone.errors import MegaphoneError
from spark_megaphone.plan import Plan, PlanStep, Step
from spark_megaphone.query import Megaphone
from spark_megaphone.relocation import Drain, Relocations

__all__ = [
    "Drain",
    "Megaphone",
    "MegaphoneError",
    "Plan",
    "PlanStep",
    "Relocations",
    "Step",
    "__version__",
    "conf",
    "configure",
    "errors",
    "options",
]
