"""Writes benchmarks/README.md and its pictures from the recorded results.

python benchmarks/table.py    writes them again, from README.in.md, results/*.json and runs/
"""

import json
from pathlib import Path
from typing import Any

import cpu_table
import end_to_end
import gpu_table
import pictures

FOLDER = Path(__file__).parent
RESULTS, RUNS = FOLDER / "results", FOLDER / "runs"
CURVES = RESULTS / "h200-curves.png"


def publish() -> None:
    """Write README.md and the pictures."""
    for path, results in _records():
        if "grid" in results.get("parts", {}):
            pictures.draw_grid(path.with_suffix(".png"), results["parts"]["grid"])
    records = end_to_end.read(RUNS)
    if records:
        pictures.draw_curves(CURVES, records)
    (FOLDER / "README.md").write_text(render_readme())


def render_readme() -> str:
    """The text of README.md: the template and all recorded results."""
    parts = [(FOLDER / "README.in.md").read_text().rstrip()]
    for path, results in _records():
        picture = f"![A training step over units and over batch size](results/{path.stem}.png)"
        parts.append(f"## Recorded: {path.stem}\n\n{render_results(results, picture)}")
    records = end_to_end.read(RUNS)
    if records:
        parts.append(f"## Whole runs\n\n{end_to_end.render(records)}")
        parts.append(f"![Learning curves of the five units](results/{CURVES.name})")
    return "\n\n".join(parts) + "\n"


def render_results(results: dict[str, Any], picture: str = "") -> str:
    """One record as Markdown."""
    if "parts" in results:
        return gpu_table.render(results, picture)
    return cpu_table.render(results)


def _records() -> list[tuple[Path, dict[str, Any]]]:
    return [(path, json.loads(path.read_text())) for path in sorted(RESULTS.glob("*.json"))]


if __name__ == "__main__":
    publish()
