"""Cut logs at random and carve them: no message comes out that nobody stored.

python -m tests.carve.campaign --cuts 2000 --seed 0
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.carve.images import carve, cut, plain_search
from tests.carve.test_carve import ENDS, damaged_log

SAID = "seed {}: {} whole, {} written, {} left out\n"


def main() -> int:
    """Run the campaign; 1 when a message was invented or lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    written = left_out = wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        for seed in range(asked.seed, asked.seed + asked.cuts):
            image, stored = damaged_log(seed)
            done, raw = carve(Path(directory), image)
            found, whole = cut(raw), plain_search(image)
            is_right = set(found) <= stored and len(whole) == len(found) + done.lone_left
            if not is_right or done.lone_left > ENDS:
                sys.stdout.write(SAID.format(seed, len(whole), len(found), done.lone_left))
                wrong += 1
            written, left_out = written + len(found), left_out + done.lone_left
    sys.stdout.write(
        f"{asked.cuts} cuts, {written} records written, {left_out} left out, {wrong} wrong\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
