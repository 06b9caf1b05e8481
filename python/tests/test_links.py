# SPDX-License-Identifier: Apache-2.0
"""Every relative link of a page leads to a file, and to an anchor in it.

Pages are Markdown files, and the Markdown cells of notebooks.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ELSEWHERE = re.compile(r"[a-z]+:")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')


def text_of(page: Path) -> str:
    """The Markdown of a page."""
    text = page.read_text("utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def links(text: str) -> list[str]:
    """The targets of the links in a page that do not leave the repository."""
    prose = CODE.sub("", CODE_BLOCK.sub("", text))
    return [target for target in LINK.findall(prose) if not ELSEWHERE.match(target)]


def anchors(text: str) -> set[str]:
    """What a link into a page may name: its anchors, and its headings as GitHub names them."""
    prose = CODE_BLOCK.sub("", text)
    found = set(ANCHOR.findall(prose))
    for heading in HEADING.findall(prose):
        words = ANCHOR.sub("", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        numbered = (f"{slug}-{i}" if i else slug for i in range(len(found) + 1))
        found.add(next(name for name in numbered if name not in found))
    return found


def broken(page: Path, text: str) -> Iterator[str]:
    for target in links(text):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if name and not file.exists():
            yield f"{page}: {target} leads to no file"
        elif anchor and anchor not in anchors(text if file == page else text_of(file)):
            yield f"{page}: {target} leads to no anchor"


def pages() -> list[Path]:
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-co",
        "--exclude-standard",
        "--",
        "*.md",
        "*.ipynb",
    ]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).exists()]


def test_every_link_leads_somewhere() -> None:
    found = pages()
    assert len(found) > 50
    problems = [problem for page in found for problem in broken(page, text_of(page))]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "text",
    [
        "[a](missing.md)",
        "[a\nb](missing.md#c)",
        "[a](there.md#missing)",
        "# Title\n\n[a](#titles)",
        '[a](#id)\n\n```\n<a id="id"></a>\n```',
    ],
)
def test_a_broken_link_is_seen(tmp_path: Path, text: str) -> None:
    (tmp_path / "there.md").write_text("# A title\n")
    assert len(list(broken(tmp_path / "page.md", text))) == 1


def test_the_links_of_a_notebook_are_those_of_its_text(tmp_path: Path) -> None:
    page = tmp_path / "tour.ipynb"
    text = {"cell_type": "markdown", "source": ["# Title\n", "[a](#title), [b](missing.md)"]}
    code = {"cell_type": "code", "source": ["rows = found[0](missing.py)"]}
    page.write_text(json.dumps({"cells": [text, code]}))
    assert list(broken(page, text_of(page))) == [f"{page}: missing.md leads to no file"]


@pytest.mark.parametrize(
    "text",
    [
        "[a](there.md), [b](there.md#a-title-of-x), [c](there.md#id), [d](there.md#a-title-of-x-1)",
        "[a](https://example.org/missing.md#b), `[a](missing.md)`, [e](.)",
        "# Title: `code`\n\n[a](#title-code)",
        "```\n[a](missing.md)\n```",
    ],
)
def test_a_link_that_leads_somewhere_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "there.md").write_text('# A title of x\n<a id="id"></a>Text\n## A title of `x`\n')
    assert list(broken(tmp_path / "page.md", text)) == []
