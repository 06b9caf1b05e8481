# SPDX-License-Identifier: Apache-2.0
"""How objects look in a notebook: small tables, nothing that runs, everything escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table.

    Args:
        caption: The line above it, as text.
        header: Names of the columns; none for a table without.
        rows: Cells as text or numbers; None is left empty.
    """
    head = f"<thead><tr>{_cells('th', header)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption>{head}<tbody>{body}</tbody></table>"


def _cells(tag: str, values: Sequence[object]) -> str:
    return "".join(
        f"<{tag}>{'' if value is None else escape(str(value))}</{tag}>" for value in values
    )
