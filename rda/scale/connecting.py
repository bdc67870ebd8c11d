"""A connection to Ray, whose errors are one line."""

import logging
import os
import secrets
import socket
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from rda.options import LOCAL, ON_A_NODE

OLDEST = (2, 52)
"""The first Ray that asks for a token: whoever reaches an older one runs code on its nodes."""
SECONDS_TO_ANSWER = 10.0
ATTEMPTS = 3
"""The head starts a process for each program that connects, which a busy machine may not manage in
the half minute that Ray gives it."""
OBJECT_STORE_BYTES = 100_000_000
"""Only settings and statuses pass through it."""
VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_LOG_TO_STDERR": "0",
    "RAY_worker_niceness": "0",
}
"""No reports to anyone; and runs with the priority that they have without Ray, which would give
them the lowest: on a busy machine they took twice as long."""


class ClusterError(RuntimeError):
    """There is no such cluster, or it does not work with this program; the message says why."""


@contextmanager
def connected(address: str) -> Iterator[ModuleType]:
    """Ray, connected for as long as the context lasts; "local" is started and stopped.

    Inside of another connection it is that one.
    """
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    import ray

    if tuple(map(int, ray.__version__.split(".")[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ClusterError(
            f"Ray {ray.__version__} lets in everybody who can reach it: rda needs Ray {oldest} or "
            "newer, which asks for a token"
        )
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        with (
            tempfile.TemporaryDirectory(prefix="rda-ray-", ignore_cleanup_errors=True) as folder,
            _for_us_alone(ray),
        ):
            # Ray lets all users write in its folder, so that has a parent which none may enter.
            _started(ray, Path(folder, "ray"), quiet)
            try:
                yield ray
            finally:
                ray.shutdown()
        return
    if address != ON_A_NODE:
        _check_answers(address)
    for _ in range(ATTEMPTS - 1):
        with suppress(ClusterError):
            _connect(ray, address, quiet)
            break
        ray.shutdown()
    else:
        _connect(ray, address, quiet)
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _for_us_alone(ray: ModuleType) -> Iterator[None]:
    """A Ray that starts now asks for a token of ours and listens on the loopback alone.

    It takes 127.0.0.1 for an address of other machines and replaces it, unless it was told, as it
    tells itself on macOS, that there are no other machines.
    """
    try:
        from ray._private import ray_constants

        read_environment, reaches_out = (
            ray._raylet.Config.initialize,
            ray_constants.ENABLE_RAY_CLUSTER,
        )
    except (ImportError, AttributeError) as error:  # private, and a newer Ray may be without them
        raise ClusterError(
            f"Ray {ray.__version__} cannot be kept from listening to other machines ({error}): "
            "install one that was tried, such as 2.60, or start a cluster and name its address"
        ) from error
    before = {name: os.environ.get(name) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=_token())
    read_environment("")  # it may have been read before
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = reaches_out
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def _token() -> str:
    """The same each time: Ray reads it once in a process."""
    return os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)


def _started(ray: ModuleType, folder: Path, quiet: dict[str, Any]) -> None:
    try:
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=str(folder),
            **quiet,
        )
    except Exception as error:
        raise ClusterError(f"Ray did not start: {_first_line(error)}") from error


def _connect(ray: ModuleType, address: str, quiet: dict[str, Any]) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address=address, **quiet)
    except ImportError as error:
        raise ClusterError(f"{address} needs the package grpcio: {error}") from error
    except Exception as error:
        where = "this machine is not a node of a Ray cluster" if address == ON_A_NODE else address
        raise ClusterError(
            f"cannot use Ray at {where}: {_first_line(error)}; it needs the same versions of "
            "Python and Ray, and the cluster's token ($RAY_AUTH_MODE, $RAY_AUTH_TOKEN)"
        ) from error


def _check_answers(address: str) -> None:
    """Ray would try for half a minute before it says that nobody is there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ClusterError(f"no Ray cluster answers at {address}: {reason}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
