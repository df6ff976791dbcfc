"""Write the seeds of the fuzzers: every case of docs/contract, good and bad, as the bytes that a fuzzer takes.

    python seeds.py FOLDER

Makes ``FOLDER/blob`` and its like, one small file a seed. What the contract means: docs/contract/README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from contract.cases import (
    SLOTS,
    changed,
    load,
    payload_bytes,
    plan_bytes,
    slots_of,
)

# A seed is mutated and cut to the longest input of its target: the few cases that are long for their own sake, such as
# one of 100,000 brackets, would only be slow.
LONGEST = 4096


def payloads(*bases: str) -> Iterator[tuple[str, bytes]]:
    """Payloads of delegates by name."""
    contract = load("payloads")
    for case in contract["cases"]:
        if case["base"] in bases:
            yield case["name"], payload_bytes(case, contract)


def plans() -> Iterator[tuple[str, bytes]]:
    """Plans by name."""
    contract = load("plans")
    for case in contract["cases"]:
        yield case["name"], plan_bytes(case, contract["base"])


def records() -> Iterator[tuple[str, list[Any]]]:
    """Records of 13 strings by name."""
    contract = load("records")
    for section, prefix in (("metadata cases", "metadata."), ("slots cases", "")):
        for case in contract[section]:
            yield case["name"], slots_of(changed(contract["slots"], case, prefix))


def record_lines() -> Iterator[tuple[str, bytes]]:
    """Records by name, a slot a line; a slot with a line feed of its own is two."""
    for name, slots in records():
        yield name, "\n".join(map(str, slots)).encode(errors="surrogatepass")


def fields() -> Iterator[tuple[str, bytes]]:
    """What a fuzzer draws a record's fields from, taken from the ends of a seed: texts, then choices."""
    for name, slots in records():
        yield name, "%".join(map(str, slots)).encode(errors="surrogatepass")


def engines() -> Iterator[tuple[str, bytes]]:
    """Engine slots, in base64."""
    at = SLOTS.index("engine")
    for name, slots in records():
        if len(slots) > at:
            yield name, str(slots[at]).encode()


SEEDS: Mapping[str, Any] = {
    "blob": lambda: payloads("TR01", "TR02"),
    "reference": lambda: payloads("TRTN"),
    "record": record_lines,
    "fields": fields,
    "plan": plans,
    "base64": engines,
}


def main(folder: Path) -> None:
    """Write all seeds, each content once."""
    for kind, seeds in SEEDS.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        written: set[bytes] = set()
        for number, (_, content) in enumerate(seeds()):
            if len(content) > LONGEST or content in written:
                continue
            written.add(content)
            (folder / kind / f"contract-{number:03}").write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
