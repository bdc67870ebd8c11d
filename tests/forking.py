"""Python processes that have torch loaded when they begin.

They are forked from one process that has loaded it and done nothing else, and so begin within
milliseconds, where a new interpreter takes seconds. For tests of what processes do, together or one
after another; how an interpreter starts is tested elsewhere.
"""

import multiprocessing
import os
import runpy
import socket
import sys

LOADED = (
    *("rda.cli", "rda.commands.train", "rda.layers", "rda.training.running"),
    *("torch._dynamo", "torch.distributed.fsdp", "matplotlib.figure", "rich.console"),
    *("safetensors.torch", "tomli_w"),
)
METHOD = "forkserver"
_context = multiprocessing.get_context(METHOD)
_context.set_forkserver_preload(list(LOADED))


def start(line, cwd=None, env=None, together=False):
    """Start what `python` with the words of `line` would; `together` puts stderr into stdout."""
    return Forked(list(map(str, line)), str(cwd or os.getcwd()), dict(env or os.environ), together)


def run(line, cwd=None, env=None):
    """The exit code, what was printed and the complaints."""
    process = start(line, cwd, env)
    said, complaints = process.communicate()
    return process.returncode, said, complaints


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def start_team(size, line, cwd=None, **more):
    """The processes of a team, as torchrun would start them, with `more` in their environment."""
    common = {**os.environ, **more, "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    return [
        start(line, cwd, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, together=True)
        for rank in range(size)
    ]


def finish(team):
    """What each process of a team printed, and its exit code."""
    said = [process.communicate()[0] for process in team]
    return said, [process.returncode for process in team]


class Forked:
    """A process with the methods of subprocess.Popen that tests use, and both outputs in pipes."""

    def __init__(self, line, cwd, env, together):
        self._readers, writers = zip(*(_context.Pipe(duplex=False) for _ in "oe"), strict=True)
        # The tests may end before a daemon does: it is ended with them.
        self._process = _context.Process(
            target=_become, args=(line, cwd, env, together, *writers), daemon=True
        )
        self._process.start()
        for writer in writers:
            writer.close()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    poll = returncode.fget

    def wait(self):
        self._process.join()
        return self.returncode

    def kill(self):
        self._process.kill()

    def send_signal(self, number):
        os.kill(self.pid, number)

    def communicate(self):
        """What it printed, and its complaints, after its end."""
        said = []
        for reader in self._readers:
            with open(os.dup(reader.fileno()), encoding="utf-8", errors="replace") as text:
                said.append(text.read())
            reader.close()
        self.wait()
        return tuple(said)


def _become(line, cwd, env, together, output, complaints):
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    os.dup2(output.fileno(), 1)
    os.dup2((output if together else complaints).fileno(), 2)
    for writer in (output, complaints):
        writer.close()
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", buffering=1, encoding="utf-8", closefd=False) for number in (1, 2)
    )
    if "OMP_NUM_THREADS" in env:
        import torch

        torch.set_num_threads(int(env["OMP_NUM_THREADS"]))  # OpenMP has read it already
    kind, *rest = line
    if kind == "-c":
        code, *rest = rest
        sys.argv = ["-c", *rest]
        sys.path.insert(0, "")
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    elif kind == "-m":
        module, *rest = rest
        sys.argv = [module, *rest]
        sys.path.insert(0, cwd)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *rest]
        sys.path.insert(0, os.path.dirname(os.path.abspath(kind)))
        runpy.run_path(kind, run_name="__main__")
