"""Takes out of texts what shows whose machine it is: paths, people, hosts, addresses and keys."""

from __future__ import annotations

import getpass
import os
import re
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localspec.base.system import folders

SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL|COOKIE", re.IGNORECASE)  # of a variable
MIN_SECRET_LETTERS = 4  # shorter ones would be found in any text
USERS = ("USER", "LOGNAME", "USERNAME")
PATTERNS: Mapping[str, re.Pattern[str]] = {
    "ADDRESS": re.compile(
        r"\w+://[^\s'\"]+"
        r"|\[[0-9a-fA-F:.]*:[0-9a-fA-F:.]*\](?::\d+)?"
        r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
        r"|[\w.-]*[\w-]:\d{2,5}\b"
        r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)*"
    ),
    "PATH": re.compile(
        r"(?:PATH(?=[\\/])|\b[A-Za-z]:[\\/]|\\\\|~[\\/]|(?<![\w.)])/(?=\w))[^\s'\",;()]*"
    ),
    "FILE": re.compile(r"[^\s'\"(]+\.(?:gguf|safetensors|json|jsonl|toml|txt|log|npy|pem)\b", re.I),
}


@dataclass(frozen=True, slots=True)
class PrivateTexts:
    """The words that are private on this machine, each with what stands for it in a report."""

    words: Mapping[str, str]

    @classmethod
    def of_this_machine(cls, variables: Mapping[str, str] = os.environ) -> PrivateTexts:
        home = Path.home()
        own = (folders.cache(), folders.data(), folders.configuration(), home, Path.cwd())
        python = (Path(sys.prefix), Path(sys.base_prefix), Path(tempfile.gettempdir()))
        host = socket.gethostname()
        users = [getpass.getuser(), home.name, *(variables.get(name, "") for name in USERS)]
        secrets = [value for name, value in variables.items() if SECRET.search(name)]
        long_enough = [secret for secret in secrets if len(secret) >= MIN_SECRET_LETTERS]
        return cls(
            {
                **dict.fromkeys(long_enough, "KEY"),
                **dict.fromkeys(map(os.fspath, (*own, *python)), "PATH"),
                **dict.fromkeys([host, host.partition(".")[0]], "HOST"),
                **dict.fromkeys(users, "USER"),
            }
        )

    def taken_from(self, value: object) -> object:
        """Return a value of JSON without them; keys of objects are names of our own."""
        if isinstance(value, str):
            return self.text_without(value)
        if isinstance(value, Mapping):
            return {key: self.taken_from(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.taken_from(item) for item in value]
        return value

    def text_without(self, text: str) -> str:
        for word, name in sorted(self.words.items(), key=lambda pair: -len(pair[0])):
            if word.strip("/\\. "):
                edges = r"(?<!\w){}(?!\w)" if word[0].isalnum() else "{}"
                text = re.sub(edges.format(re.escape(word)), name, text, flags=re.IGNORECASE)
        for name, pattern in PATTERNS.items():
            text = pattern.sub(name, text)
        return text
