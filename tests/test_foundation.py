"""What a fresh clone rests on: the import, the virtual environment, the documents."""

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import forking
import pytest

ROOT = Path(__file__).parents[1]


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


def test_import_rda_pulls_in_torch_alone():
    """Nothing but what `import torch` loads anyway."""
    known = set(python("import sys, torch; print(*sys.modules)").split())
    ours = set(python("import sys, rda; print(*sys.modules)").split())
    new = {name.split(".")[0] for name in ours - known}
    assert new - {"rda", "torch"} <= set(sys.stdlib_module_names)


def test_the_first_unit_does_not_wait_for_torchs_compiler():
    """It takes longer to import than all the rest, and most people never compile."""
    code = "import sys, torch, rda; rda.RDA, rda.RDACell, rda.build; print(*sys.modules)"
    assert "torch._dynamo" not in python(code).split()


@pytest.fixture(scope="module")
def make_venv():
    spec = importlib.util.spec_from_file_location("make_venv", ROOT / "tools" / "make_venv.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_old_python_is_told_so_in_one_line(make_venv):
    told = make_venv.complaint((3, 10, 13), has_venv=True)
    assert "3.11 or newer" in told
    assert "3.10" in told
    assert "\n" not in told


def test_a_missing_venv_is_told_so_in_one_line(make_venv, monkeypatch):
    told = make_venv.complaint((3, 12, 1), has_venv=False)
    assert "python3-venv" in told
    assert "\n" not in told
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    assert not make_venv.venv_works()


def test_this_python_passes(make_venv):
    assert make_venv.complaint(sys.version_info, make_venv.venv_works()) is None


def test_the_readme_example_runs():
    """The swap from nn.LSTM to rda.RDA, in ten lines."""
    text = (ROOT / "README.md").read_text()
    section = text.split("## From nn.LSTM to RDA", 1)[1]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1)
    assert len(code.strip().splitlines()) <= 10
    assert "rda.RDA" in code
    assert "nn.LSTM" in code
    exec(compile(code, "README.md", "exec"), {})


def test_training_and_loading_in_the_readme_work_in_two_processes(tmp_path):
    text = (ROOT / "README.md").read_text().split("## Train, load, use", 1)[1]
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    head, loading = code.split("\nmodel = ", 1)
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # other tests run beside this one
    for part in (head, f"import rda, torch\nmodel = {loading}"):
        code, said, complaints = forking.run(["-c", part], tmp_path, alone)
        assert code == 0, complaints
    assert "MultiCopy" in said
    assert "torch.Size([30, 2])" in said


def test_the_text_for_a_package_index_stands_alone():
    """There is no repository beside it, so that relative links and images would be broken."""
    text = (ROOT / "docs" / "package.md").read_text()
    assert not re.search(r"\]\((?!https?://)", text)
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    exec(compile(code, "package.md", "exec"), {})


def test_the_source_distribution_holds_everything_that_is_tracked():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all((ROOT / name).exists() for name in included)
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no list of tracked files to compare with")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True).stdout
    tops = {line.split("/")[0] for line in tracked.splitlines()}
    # Added by the build itself, or of use in a checkout alone.
    assert tops - {"pyproject.toml", ".gitignore", ".ci"} == set(included)


def test_without_the_extra_units_work_and_the_rest_says_what_to_install(tmp_path):
    """The packages of the extra are hidden, as if they were not installed."""
    hide = "import sys; sys.modules.update(dict.fromkeys("
    hide += "['rich', 'matplotlib', 'jinja2', 'safetensors', 'tomli_w', 'numpy']))\n"
    python(hide + "import rda, torch; rda.RDA(2, 3)(torch.zeros(4, 1, 2))[0].sum().backward()")
    for use in ("rda.train('copy', 'RDA', small=True)", "rda.load('x')"):
        code = f"{hide}import rda\ntry:\n    {use}\nexcept ModuleNotFoundError as e: print(e)"
        assert "pip install 'rda-torch[cli]'" in python(code)
    code = hide + "from rda.cli import main; sys.exit(main(sys.argv[1:]))"
    for line in (["runs"], ["train", "copy", "RDA", "--small"], ["demo"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *line], capture_output=True, text=True, cwd=tmp_path,
            check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "pip install 'rda-torch[cli]'" in done.stderr


def test_the_tree_for_contributors_is_the_house():
    tree = (ROOT / "CONTRIBUTING.md").read_text().split("## The house", 1)[1]
    block = re.search(r"```\n(.*?)```", tree, re.DOTALL).group(1)
    folders = [ROOT]
    named = set()
    for line in block.splitlines():
        indent, name = re.match(r"( *)(\S+)", line).groups()
        folders = folders[: len(indent) // 2 + 1]
        path = folders[-1] / name
        assert path.exists(), f"the tree names {path.relative_to(ROOT)}, which is not there"
        named.add(path)
        if path.is_dir():
            folders.append(path)
    sources = {path for path in (ROOT / "rda").rglob("*.py") if path.name != "__init__.py"}
    missing = {path for path in sources if not named & {path, *path.parents} - {ROOT / "rda"}}
    assert not missing, "not in the tree"
    for folder, kind in (("docs", "md"), ("tools", "py")):
        there = {path.name for path in (ROOT / folder).glob(f"*.{kind}")}
        assert there <= set(re.findall(rf"[\w-]+\.{kind}", block))


def resolve(dotted):
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SYMBOLS = sorted(
    {symbol for path in DOCUMENTS for symbol in re.findall(r"`(rda(?:\.\w+)+)", path.read_text())}
)


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_every_symbol_in_the_documents_exists(symbol):
    assert resolve(symbol) is not None


def test_every_link_between_documents_leads_somewhere():
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_deviation_in_the_code_is_listed_in_the_map():
    listed = (ROOT / "docs" / "paper.md").read_text().split("## Deviations", 1)[1]
    for path in (ROOT / "rda").rglob("*.py"):
        if "Deviation:" in path.read_text():
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            assert f"`{module}" in listed, f"{module} deviates and docs/paper.md does not say so"


def test_the_map_names_every_equation_of_sections_3_to_5():
    text = (ROOT / "docs" / "paper.md").read_text()
    for label in (
        "RWA.features", "RWA.attention", "RWA.average", "RDA.features", "RDA.attention",
        "RDA.discount", "RDA.average", "RDA.output",
    ):  # fmt: skip
        assert f"| {label} |" in text
