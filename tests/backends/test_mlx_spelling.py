"""The bytes that tokens stand for, by the decoders a tokenizer.json may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec_mlx.folder.spelling import spelling

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True}
BYTES = {"type": "ByteFallback"}
METASPACE = {"type": "Metaspace", "replacement": "▁"}


def replaced(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def sequence(*steps):
    return {"type": "Sequence", "decoders": list(steps)}


@pytest.mark.parametrize(
    ("decoder", "text", "said"),
    [
        (BYTE_LEVEL, "Ġnaï", b" na\xef"),
        (BYTE_LEVEL, "ĊčĠĀ", b"\n\r \0"),
        (BYTE_LEVEL, "Ń", b"\xad"),
        (BYTE_LEVEL, "漢", "漢".encode()),  # no letter of a byte: as it is
        (BYTE_LEVEL, "ï ", "ï ".encode()),
        (BYTE_LEVEL, "ï\xa0", "ï\xa0".encode()),
        (BYTE_LEVEL, "<0x0A>", b"<0x0A>"),
        (sequence(BYTE_LEVEL), "Ġ", b" "),
        (METASPACE, "▁a▁", b" a "),
        ({**METASPACE, "replacement": "_"}, "_a▁", " a▁".encode()),
        (METASPACE, "<0x0A>", b"<0x0A>"),
        (sequence(METASPACE, BYTES), "<0x0A>", b"\n"),
        (sequence(METASPACE, BYTES), "<0xff>", b"\xff"),
        (sequence(METASPACE, BYTES), "<0x0A>▁", b"<0x0A> "),
        (sequence(replaced("▁", " "), BYTES, {"type": "Fuse"}), "▁Ġ", " Ġ".encode()),
        (sequence(replaced("x", "▁"), replaced("▁", " ")), "x▁", b"  "),
        (sequence(sequence(replaced("x", "▁")), replaced("▁", "x")), "x▁", b"xx"),
    ],
)
def test_a_token_says_what_its_decoder_makes_of_it(decoder, text, said):
    assert spelling(Path("tokenizer.json"), {"decoder": decoder}).token_bytes(text) == said


@pytest.mark.parametrize(
    ("step", "text", "said"), [(BYTE_LEVEL, "Ġa", b" a"), (METASPACE, "▁a", b" a")]
)
def test_without_a_decoder_what_was_done_to_the_text_is_undone(step, text, said):
    cuts = {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, step]}
    spelt = spelling(Path("tokenizer.json"), {"decoder": None, "pre_tokenizer": cuts})
    assert spelt.token_bytes(text) == said
