"""Let another environment find the packages of this one, behind its own: ``share_packages.py ENVIRONMENT``.

An older mypy imports typedbatch and numpy when it loads the plugin, and they are not installed a second time for it.
"""

import sys
import sysconfig
from pathlib import Path


def share(environment: Path) -> None:
    """Write a ``.pth`` file into the site-packages of ``environment``."""
    paths = {"base": str(environment), "platbase": str(environment)}
    folder = Path(sysconfig.get_path("purelib", vars=paths))
    here = sysconfig.get_path("purelib")
    (folder / "shared_packages.pth").write_text(f"import site; site.addsitedir({here!r})\n", encoding="utf-8")


if __name__ == "__main__":
    share(Path(sys.argv[1]))
