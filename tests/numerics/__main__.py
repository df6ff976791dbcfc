"""Write docs/numerics.json and docs/numerics.md anew.

    python -m numerics

Exits 1 if the committed files were out of date.
"""

from __future__ import annotations

import sys

from . import facts, page


def main() -> int:
    """Write what is out of date; see the module's docstring."""
    found = facts.facts()
    texts = {facts.FILE: facts.text_of(found), page.FILE: page.page(found)}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        path.write_text(texts[path])
        print(f"docs/{path.name} was out of date: commit it", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
