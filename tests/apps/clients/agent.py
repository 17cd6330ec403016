"""Stands for a coding agent: tells what it was started with, and asks what it is told of."""

import json
import os
import sys
import urllib.request

NAMES = ("ANTHROPIC_", "OPENAI_", "CLAUDE_", "LOCALSPEC_", "OPENCODE_", "CRUSH_", "AIDER_", "QWEN_")
told = {key: value for key, value in os.environ.items() if key.startswith(NAMES)}
address, model, key = (
    os.environ[f"ANTHROPIC_{name}"] for name in ("BASE_URL", "MODEL", "AUTH_TOKEN")
)
body = {
    "model": model,
    "max_tokens": 4,
    "messages": [{"role": "user", "content": "hello"}],
}
request = urllib.request.Request(
    f"{address}/v1/messages",
    json.dumps(body).encode(),
    {"authorization": f"Bearer {key}", "content-type": "application/json"},
)
with urllib.request.urlopen(request) as answer:
    status = answer.status
print(json.dumps({"arguments": sys.argv[1:], "told": told, "status": status}))
sys.exit(7)
