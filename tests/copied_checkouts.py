"""Records that call their checkout changed, though it was that of a commit.

They were made with commit 5abd073 on a machine that had its files, and the history up to the commit
before it.
"""

BEFORE = "b65c1ae42d5ba7d41f29e106d6ec84b06bf6c936"


def is_of_a_commit(git):
    """Whether what a run says about its checkout names the code that trained it."""
    # A machine that holds a copy without its history cannot tell.
    return bool(git["commit"]) and (git["dirty"] in (False, None) or git["commit"] == BEFORE)
