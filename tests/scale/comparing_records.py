"""Whether two folders hold the same runs: every byte that does not tell of time or place."""

import hashlib
import json

SAME = ("settings.toml", "metrics.jsonl", "model.safetensors", "samples.jsonl")
OF_TIME = ("seconds",)


def differences(one, other):
    """A line for each file that differs between the runs of two folders."""
    names = sorted({path.parent.name for path in one.glob("*/settings.toml")})
    others = sorted({path.parent.name for path in other.glob("*/settings.toml")})
    found = [] if names == others and names else [f"runs: {names} and {others}"]
    for name in sorted(set(names) & set(others)):
        found += [
            f"{name}/{file}"
            for file in SAME
            if _digest(one / name / file) != _digest(other / name / file)
        ]
        found += [f"{name}/status.json"] * (_status(one / name) != _status(other / name))
    return found


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _status(folder):
    status = json.loads((folder / "status.json").read_text())
    return {key: value for key, value in status.items() if key not in OF_TIME}
