"""The user's folders: configuration, data and cache."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def configuration() -> Path:
    return platformdirs.user_config_path("localspec", appauthor=False)


def data() -> Path:
    return platformdirs.user_data_path("localspec", appauthor=False)


def cache() -> Path:
    return platformdirs.user_cache_path("localspec", appauthor=False)
