"""A user's home, and commands that run in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.running.pulling.fake_hub import FakeHub

SCRIPTS = str(Path(__file__).parents[3] / "scripts")


class Home:
    """A user's home, and the command in it."""

    def __init__(self, path: Path, hub: FakeHub, cache: Path) -> None:
        self.path = path
        self.environment = {
            **os.environ,
            "HOME": str(path),
            "XDG_DATA_HOME": str(path / "data"),
            "XDG_CONFIG_HOME": str(path / "config"),
            "XDG_CACHE_HOME": str(cache),
            "HF_HOME": str(path / "hf"),
            "HF_ENDPOINT": hub.address,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_ETAG_TIMEOUT": "5",
            "HF_HUB_DOWNLOAD_TIMEOUT": "5",
        }

    def start(
        self, *arguments: str, module: str = "localspec", **environment: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def check_catalog(self, catalogue: str, *arguments: str) -> tuple[int, str, str]:
        """Check entries that take the place of ours."""
        self.catalogue.parent.mkdir(parents=True, exist_ok=True)
        self.catalogue.write_text(catalogue)
        wishes = (*arguments, "--catalogue", str(self.catalogue))
        path = os.pathsep.join([SCRIPTS, os.environ.get("PYTHONPATH", "")])
        process = self.start(*wishes, module="catalogue.check", PYTHONPATH=path)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    @property
    def catalogue(self) -> Path:
        """A user's own, beside which ours is read."""
        return self.path / "config" / "localspec" / "models.toml"

    @property
    def registered(self) -> list[str]:
        return sorted(path.name for path in (self.path / "data").rglob("*.json"))

    @property
    def parts(self) -> list[Path]:
        return sorted((self.path / "hf").rglob("*.localspec"))
