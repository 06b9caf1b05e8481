# SPDX-License-Identifier: Apache-2.0
"""Folders for what runs leave behind."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary(prefix: str) -> Iterator[Path]:
    """A folder that is gone afterwards, with all that is in it."""
    path = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def fresh(parent: Path) -> Path:
    """A new folder in another."""
    return Path(tempfile.mkdtemp(dir=parent))
