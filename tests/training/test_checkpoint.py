"""A checkpoint is whole or refused."""

import errno
import random
import subprocess

import pytest
import torch

from rda import files
from rda.training import checkpoint
from rda.training.checkpoint import Checkpoint, CheckpointError, load_latest, save


def example(step):
    generator = torch.Generator().manual_seed(step)
    tensors = {
        "model.weight": torch.randn(3, 4, generator=generator),
        "generator": generator.get_state()[:40],
        "empty": torch.empty(0, dtype=torch.int64),
        "scalar": torch.tensor(step),
    }
    return Checkpoint(step, tensors, {"step": step, "best": {"validation_loss": 0.25}})


def same(first, second):
    return (
        first.values == second.values
        and first.tensors.keys() == second.tensors.keys()
        and all(torch.equal(first.tensors[key], second.tensors[key]) for key in first.tensors)
    )


def test_what_is_saved_is_what_is_loaded(tmp_path):
    save(tmp_path, example(7))
    found, notes = load_latest(tmp_path)
    assert same(found, example(7))
    assert notes == []


def test_the_last_two_are_kept_and_nothing_else(tmp_path):
    for step in (1, 20, 300, 4000):
        save(tmp_path, example(step))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-000000300.safetensors",
        "step-000000300.sha256",
        "step-000004000.safetensors",
        "step-000004000.sha256",
    ]


def test_no_checkpoint_yet_is_no_error(tmp_path):
    assert load_latest(tmp_path / "nowhere") == (None, [])


def test_the_checksum_is_one_that_sha256sum_checks(tmp_path):
    save(tmp_path, example(7))
    subprocess.run(["sha256sum", "--check", "step-000000007.sha256"], cwd=tmp_path, check=True)


def damage(path, rng):
    content = bytearray(path.read_bytes())
    if rng.random() < 0.3:
        path.write_bytes(content[: rng.randrange(len(content))])
    else:
        position = rng.randrange(len(content))
        content[position] ^= 1 << rng.randrange(8)
        path.write_bytes(content)


@pytest.mark.parametrize("seed", range(200))
def test_any_flipped_bit_or_truncation_is_detected_and_the_previous_one_is_used(tmp_path, seed):
    save(tmp_path, example(7))
    save(tmp_path, example(8))
    rng = random.Random(seed)
    damage(tmp_path / f"step-000000008.{rng.choice(['safetensors', 'safetensors', 'sha256'])}", rng)
    found, notes = load_latest(tmp_path)
    assert same(found, example(7))
    (note,) = notes
    assert "step-000000008" in note
    assert "going on from step 7" in note


def test_without_a_good_one_the_error_says_so_and_touches_nothing(tmp_path):
    rng = random.Random(3)
    for step in (7, 8):
        save(tmp_path, example(step))
    for step in (7, 8):
        damage(tmp_path / f"step-{step:09d}.safetensors", rng)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(CheckpointError, match=r"no checkpoint .* can be used.*step-000000008.*7"):
        load_latest(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_save_that_was_cut_off_before_its_checksum_is_as_if_it_never_began(tmp_path):
    save(tmp_path, example(7))
    (tmp_path / "step-000000007.sha256").unlink()
    assert load_latest(tmp_path) == (None, [])


def test_saving_a_step_again_never_endangers_what_is_there(tmp_path, monkeypatch):
    save(tmp_path, example(7))
    monkeypatch.setattr(files.os, "fsync", lambda handle: 1 / 0)
    save(tmp_path, example(7))
    found, _ = load_latest(tmp_path)
    assert same(found, example(7))


def test_after_a_fallback_the_good_checkpoint_outlives_the_next_save(tmp_path):
    save(tmp_path, example(100))
    save(tmp_path, example(200))
    damage(tmp_path / "step-000000200.safetensors", random.Random(0))
    load_latest(tmp_path)
    save(tmp_path, example(150))
    damage(tmp_path / "step-000000150.safetensors", random.Random(0))
    found, _ = load_latest(tmp_path)
    assert found.step == 100


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("failing", [1, 2])
def test_a_full_or_read_only_disk_leaves_the_old_checkpoint(tmp_path, monkeypatch, code, failing):
    save(tmp_path, example(7))
    calls = []

    def fsync(handle):
        calls.append(handle)
        if len(calls) >= failing:
            raise OSError(code, "the disk says no")

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(OSError, match="the disk says no"):
        save(tmp_path, example(8))
    monkeypatch.undo()
    found, _ = load_latest(tmp_path)
    assert same(found, example(7))
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_a_pickle_is_never_opened(tmp_path):
    torch.save({"weight": torch.zeros(2)}, tmp_path / "step-000000009.safetensors")
    content = (tmp_path / "step-000000009.safetensors").read_bytes()
    checksum = checkpoint._checksum("step-000000009.safetensors", content)
    (tmp_path / "step-000000009.sha256").write_bytes(checksum)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_latest(tmp_path)
