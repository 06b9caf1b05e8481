# SPDX-License-Identifier: Apache-2.0
"""Prepares a session: which jar, which settings, and whether it is still time to add them."""

import itertools
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from spark_megaphone import _checks, conf
from spark_megaphone._jvm import PLUGIN, running_context_has_plugin, running_jvm_knows_classes
from spark_megaphone._version import __version__
from spark_megaphone.errors import (
    ConnectNotSupported,
    InvalidCheckpointFormat,
    JarMissing,
    NoJarForSpark,
    PluginMissing,
    SessionAlreadyRunning,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JARS_FOLDER = Path(__file__).parent / "jars"
_JAR_NAME = re.compile(r"spark-megaphone_(\d+\.\d+)_2\.13-.*\.jar")
_JARS, _PLUGINS = "spark.jars", "spark.plugins"
_CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def configure(
    builder: "SparkSession.Builder",
    *,
    bins: int | None = None,
    checkpoint_format: int | None = None,
    mode: str | None = None,
    strategy: str | None = None,
) -> "SparkSession.Builder":
    """Adds the plugin, with the jar that fits the running Spark, to a session that is to be built.

    What `spark.jars` and `spark.plugins` have already (on the builder, or in Spark's configuration)
    stays. Doing it twice is the same as once. For a session that runs with the plugin already, only
    the settings are added.

    Args:
        builder: A builder of a classic session.
        bins: How many bins a new query's state is split into: a power of two from 1 to 65,536. None
            leaves 1024, or what is configured.
        checkpoint_format: Spark's checkpoint format version, 1 or 2. None leaves Spark's default.
        mode: The transfer mode of plans that name none.
        strategy: The strategy of plans that name none.

    Returns:
        The same builder.

    Raises:
        SessionAlreadyRunning: A session without the plugin runs.
        JarMissing: The JVM runs already and does not know the jar, or the package has no jars.
        NoJarForSpark: The package has no jar for the Spark that runs.
        PluginMissing: `PYSPARK_SUBMIT_ARGS` overrides `spark.plugins`.
        ConnectNotSupported: The builder makes a Spark Connect session.
        InvalidBins: `bins` is no power of two in range.
        InvalidCheckpointFormat: `checkpoint_format` is neither 1 nor 2.
        UnknownMode: There is no such mode.
        UnknownStrategy: There is no such strategy.
        InvalidBatchSize: The size of `batched(k)` is out of range.
        WrongType: An argument has the wrong type, for example a float for a whole number.
    """
    _refuse_connect(builder)
    settings = _settings(bins, checkpoint_format, mode, strategy)
    has_plugin = running_context_has_plugin()
    if has_plugin is False:
        raise SessionAlreadyRunning(
            "A Spark session without the plugin runs in this process already, and the builder "
            "would return it as it is; stop it, restart Python, and call configure before the "
            "first session is made."
        )
    if has_plugin is None:
        jar = _jar()
        _check_submit_arguments(jar)
        if running_jvm_knows_classes() is False:
            raise JarMissing(
                "The JVM of this process runs already, without Megaphone's jar, and cannot take "
                f"it any more; give spark-submit --jars {jar}, or restart Python and call "
                "configure before the first "
                "session is made."
            )
        jars = _configured(builder, _JARS)
        if not any(_JAR_NAME.fullmatch(name.rsplit("/", 1)[-1]) for name in jars):
            settings[_JARS] = ",".join([*jars, str(jar)])
        plugins = _configured(builder, _PLUGINS)
        if PLUGIN not in plugins:
            settings[_PLUGINS] = ",".join([*plugins, PLUGIN])
    for key, value in settings.items():
        builder.config(key, value)
    return builder


def options(
    *,
    bins: int | None = None,
    checkpoint_format: int | None = None,
    mode: str | None = None,
    strategy: str | None = None,
) -> dict[str, str]:
    """The settings that `configure` makes, for where there is no builder.

    For `spark-submit`, a `spark-defaults.conf`, or the start of a Spark Connect server. Spark takes
    `spark.jars` and `spark.plugins` whole, so add yours to these. Needs no running Spark.

    Args:
        bins: See `configure`.
        checkpoint_format: See `configure`.
        mode: See `configure`.
        strategy: See `configure`.

    Returns:
        Values by key, with the jar that fits the installed PySpark.

    Raises:
        JarMissing: The package has no jars.
        NoJarForSpark: The package has no jar for the PySpark that is installed.
        InvalidBins: See `configure`; so are the other errors of its arguments.
    """
    settings = _settings(bins, checkpoint_format, mode, strategy)
    return {_JARS: str(_jar()), _PLUGINS: PLUGIN} | settings


def _settings(
    bins: object, checkpoint_format: object, mode: object, strategy: object
) -> dict[str, str]:
    settings = {}
    if bins is not None:
        settings[conf.BINS] = str(_checks.bins_count(bins))
    if checkpoint_format is not None:
        number = _checks.whole("checkpoint_format", checkpoint_format)
        if number not in (1, 2):
            raise InvalidCheckpointFormat(
                f"The checkpoint format version is {number}, but Spark has only 1 and 2; choose 2."
            )
        settings[_CHECKPOINT_FORMAT] = str(number)
    if mode is not None:
        settings[conf.TRANSFER_MODE] = _checks.mode_name(mode)
    if strategy is not None:
        settings[conf.STRATEGY] = _checks.strategy_name(strategy)
    return settings


def _refuse_connect(builder: "SparkSession.Builder") -> None:
    options = getattr(builder, "_options", {})
    if (
        type(builder).__module__.startswith("pyspark.sql.connect.")
        or options.get("spark.remote") is not None
        or str(options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))).lower()
        == "connect"
        or not {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"}.isdisjoint(os.environ)
    ):
        raise ConnectNotSupported(
            "The builder makes a Spark Connect session, which takes no jar and no plugin; start "
            "the server with them (start-connect-server.sh --jars <the jar> --conf "
            f"{_PLUGINS}={PLUGIN}), or build a classic session. remote('local') takes no plugin."
        )


def _jar() -> Path:
    """The jar for the PySpark that is installed."""
    import pyspark

    jars = {
        found.group(1): jar
        for jar in sorted(_JARS_FOLDER.glob("*.jar"))
        if (found := _JAR_NAME.fullmatch(jar.name))
    }
    if not jars:
        raise JarMissing(
            f"There are no jars in {_JARS_FOLDER}; install the package's wheel, or run `make "
            "jars` in its sources."
        )
    minor = ".".join(pyspark.__version__.split(".")[:2])
    if minor not in jars:
        raise NoJarForSpark(
            f"spark-megaphone {__version__} has jars for Spark {' and '.join(jars)}, "
            f"but PySpark {pyspark.__version__} runs; install one of these, "
            "or a spark-megaphone made for yours."
        )
    return jars[minor]


def _configured(builder: "SparkSession.Builder", key: str) -> list[str]:
    """The names in a list that the session has without us: the builder's, else Spark's own."""
    from pyspark import SparkConf, SparkContext

    value = builder._options.get(key)
    if value is None:
        value = (
            SparkConf().get(key) if SparkContext._jvm is not None else _spark_defaults().get(key)
        )
    return [name for name in map(str.strip, str(value or "").split(",")) if name]


def _spark_defaults() -> dict[str, str]:
    """What `spark-defaults.conf` says; the JVM that would read it does not run yet."""
    from pyspark.find_spark_home import _find_spark_home

    folder = os.environ.get("SPARK_CONF_DIR") or str(Path(_find_spark_home()) / "conf")
    file = Path(folder) / "spark-defaults.conf"
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    pairs = [
        re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1)
        for line in lines
        if not line.lstrip().startswith("#")
    ]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _check_submit_arguments(jar: Path) -> None:
    """Spark prefers what `PYSPARK_SUBMIT_ARGS` says over a builder's options."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    values = dict(itertools.pairwise(words))
    settings = [word for word in words if word.startswith((f"{_JARS}=", f"{_PLUGINS}="))]
    jars = [values[word] for word in words if word == "--jars" and word in values]
    jars += [word for word in words if word.startswith("--jars=")] + [
        s for s in settings if s.startswith(f"{_JARS}=")
    ]
    if jars and not any("spark-megaphone_" in names for names in jars):
        raise JarMissing(
            f"PYSPARK_SUBMIT_ARGS names jars, and Spark takes only those; add {jar} to them."
        )
    plugins = [s for s in settings if s.startswith(f"{_PLUGINS}=")]
    if plugins and not any(PLUGIN in names for names in plugins):
        raise PluginMissing(
            f"PYSPARK_SUBMIT_ARGS sets {_PLUGINS}, and Spark takes only that; add {PLUGIN} to it."
        )
