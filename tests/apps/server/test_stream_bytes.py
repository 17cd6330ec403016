"""The bytes that a stream adds for a token: clients were written against them."""

from __future__ import annotations

import re

import pytest

from localspec.apps.server.replies.frame import MARK, Frame, encoded

SAID = 'Sé"\\\n'
TALK = [{"role": "user", "content": "say it in bytes"}]
GREEDY = {"temperature": 0, "stream": True}
TELLS = '"index": 0, "delta": {"content": %s}, "logprobs": null, "finish_reason": null'
SAYS = '"index": 0, "text": %s, "logprobs": null, "finish_reason": null'
ADDS = (
    'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", '
    '"sequence_number": N, "output_index": 0, "item_id": "ID", "content_index": 0, '
    '"delta": %s, "logprobs": []}\n\n'
)
APIS = [
    (
        "/v1/chat/completions",
        GREEDY | {"messages": TALK},
        'data: {"id": "ID", "object": "chat.completion.chunk", "created": N, '
        f'"model": "scripted", "choices": [{{{TELLS}}}]}}\n\n',
    ),
    (
        "/v1/completions",
        GREEDY | {"prompt": "say", "max_tokens": 1},  # no conversation: the model says Y
        'data: {"id": "ID", "object": "text_completion", "created": N, '
        f'"model": "scripted", "choices": [{{{SAYS}}}]}}\n\n',
    ),
    (
        "/api/chat",
        {"model": "scripted", "messages": TALK, "options": {"temperature": 0}},
        '{"model": "scripted", "created_at": "T", '
        '"message": {"role": "assistant", "content": %s}, "done": false}\n',
    ),
    (
        "/v1/messages",
        GREEDY | {"messages": TALK, "max_tokens": 99, "model": "scripted"},
        'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, '
        '"delta": {"type": "text_delta", "text": %s}}\n\n',
    ),
    ("/v1/responses", GREEDY | {"input": "say it in bytes"}, ADDS),
    (
        "/completion",
        GREEDY | {"prompt": "<|im_start|>user\nsay it in bytes<|im_end|>\n<|im_start|>assistant\n"},
        'data: {"index": 0, "content": %s, "stop": false}\n\n',
    ),
]


def anonymous(text):
    text = re.sub(r"(chatcmpl-|cmpl-|msg_)[0-9a-f]{24}(o\d+)?", "ID", text)
    text = re.sub(r'"(created|sequence_number)": \d+', r'"\1": N', text)
    return re.sub(r'"created_at": "[^"]*"', '"created_at": "T"', text)


@pytest.mark.parametrize(("path", "body", "adds"), APIS, ids=[path for path, _, _ in APIS])
def test_each_letter_is_told_in_these_bytes(server, path, body, adds):
    server.replies["say it in bytes"] = SAID
    text = anonymous(server.client.post(path, json=body).text)
    letters = "Y" if path == "/v1/completions" else SAID[:4]
    pieces = [adds % encoded(letter) for letter in letters]
    at = -1
    for piece in pieces:
        place = text.find(piece, at + 1)
        assert place > at, piece
        at = place


@pytest.mark.parametrize("text", ["", "a", 'é"\\\n\0', "\u2028", "\U0001f600", '"\\u0000"'])
def test_a_frame_gives_what_encoding_all_of_it_gives(text):
    def whole(said):
        return encoded({"model": '\0"', "choices": [{"text": said, "end": None}]}).encode()

    assert Frame.split(whole(MARK)).around(text) == whole(text)
