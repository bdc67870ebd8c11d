"""Make a virtual environment, or say in one line why this Python cannot."""

import sys


def complaint(version, has_venv):
    """What stands in the way, or None."""
    if tuple(version[:2]) < (3, 11):
        return "rda needs Python 3.11 or newer, and this is %d.%d: try 'make PYTHON=python3.12'" % (
            version[0],
            version[1],
        )
    if not has_venv:
        return (
            "this Python has no working venv module: on Debian and Ubuntu run "
            "'apt-get install python3-venv', then try again"
        )
    return None


def venv_works():
    """Whether `python -m venv` can make an environment with pip in it."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    obstacle = complaint(sys.version_info, venv_works())
    if obstacle:
        sys.exit(obstacle)
    import venv

    venv.create(sys.argv[1], with_pip=True, clear=True)
