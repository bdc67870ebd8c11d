"""Recorded results as text and pictures: benchmarks/README.md is made here and nowhere else.

python benchmarks/table.py    makes it again, from results/*.json
"""

import json
from pathlib import Path
from typing import Any

import beside_busy
import cpu_table
import gpu_table
import on_ray
import own_unit
import pictures
import scaling_table
import sharing
import text_table

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
TEXT_IS_MISSING = (
    "Training and writing text are not recorded yet: `python benchmarks/text.py --record` measures "
    "them on a GPU."
)


def publish() -> None:
    """Write the README of this folder and its pictures."""
    for path, results in _records():
        if "grid" in results.get("parts", {}):
            pictures.draw_grid(path.with_suffix(".png"), results["parts"]["grid"])
    (FOLDER / "README.md").write_text(render_readme())


def render_readme() -> str:
    """The README of this folder, from its template and all that is recorded."""
    parts = [(FOLDER / "README.in.md").read_text().rstrip()]
    for path, results in _records():
        picture = f"![A training step over units and over batch size](results/{path.stem}.png)"
        parts.append(f"## Recorded: {path.stem}\n\n{render_results(results, picture)}")
    if not (RESULTS / "text.json").exists():
        parts.append(f"## Recorded: text\n\n{TEXT_IS_MISSING}")
    return "\n\n".join(parts) + "\n"


def render_results(results: dict[str, Any], picture: str = "") -> str:
    """One record as Markdown."""
    if "parts" in results:
        return gpu_table.render(results, picture)
    if "entries" in results:
        machine = results["machine"]
        parts = gpu_table.hardware(machine), sharing.table(results["entries"])
        return "\n\n".join((*parts, gpu_table.stamp(machine)))
    if "scaling" in results:
        return scaling_table.render(results)
    if "on_ray" in results:
        return on_ray.render(results)
    if "beside_busy" in results:
        return beside_busy.render(results)
    if "own_unit" in results:
        return own_unit.render(results)
    if "generation" in results:
        return text_table.render(results)
    return cpu_table.render(results)


def _records() -> list[tuple[Path, dict[str, Any]]]:
    return [(path, json.loads(path.read_text())) for path in sorted(RESULTS.glob("*.json"))]


if __name__ == "__main__":
    publish()
