"""The drafter that was trained for the lab's model: its weights lie in the checkout, not in the installed package."""

from pathlib import Path

from ddops import resources

# where it is bound on a host
DRAFTER = "/opt/ddops/drafter"


def path() -> Path | None:
    """Returns its folder; None where ddops came without it, and the lab's hosts then draft with NGRAM."""
    folder = resources.folder("kernels_patch") / "drafters/smollm2-135m-instruct"
    return folder if (folder / "model.safetensors").exists() else None
