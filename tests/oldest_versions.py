"""Print the oldest version of each dependency that pyproject.toml allows, as constraints for pip (`make test-oldest`).

These are the versions of what users install: the package and its extras. The tools of developers are those of today.
"""

import re
import sys
import tomllib
from pathlib import Path

OF_DEVELOPERS = {"dev", "coverage", "docs", "bench"}


def oldest(project: Path) -> list[str]:
    """Each requirement ``name>=version`` as ``name==version``."""
    metadata = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    extras = [each for extra, each in metadata["optional-dependencies"].items() if extra not in OF_DEVELOPERS]
    wanted = [one for each in (metadata["dependencies"], *extras) for one in each]
    return [re.sub(r"(\[.*\])?>=", "==", one).partition(",")[0] for one in wanted]


if __name__ == "__main__":
    sys.stdout.write("\n".join(oldest(Path(__file__).parent.parent / "pyproject.toml")) + "\n")
