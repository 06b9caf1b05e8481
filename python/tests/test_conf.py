# SPDX-License-Identifier: Apache-2.0
"""The constants of the configuration keys, which are generated."""

from spark_megaphone import conf


def test_each_key_has_a_default() -> None:
    keys = {
        value for name, value in vars(conf).items() if isinstance(value, str) and name.isupper()
    }
    assert keys == set(conf.DEFAULTS)
    assert all(key.startswith("spark.megaphone.") for key in keys)
