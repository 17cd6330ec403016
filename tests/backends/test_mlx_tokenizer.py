"""Tokenizers of model folders: text to tokens and back, control tokens, ends."""

from __future__ import annotations

import json
import threading

import pytest
from transformers import AutoTokenizer

from localspec.base.errors import BackendError
from localspec.core.pairing.vocabulary import match
from localspec_mlx.folder.tokenizer import load_tokenizer
from tests.backends.tokenizer_files import (
    add,
    byte_level,
    change,
    pieces,
    unigram,
)
from tests.tiny_mlx import write_tokenizer
from tests.tiny_vocabulary import vocabulary

FAMILIES = {"byte level": byte_level, "pieces": pieces, "unigram": unigram}
SIZE = 384
THE = vocabulary().id_of("Ġthe")
TEXTS = (
    "the code is the code, and the return of the sea",
    "def add(a, b):\n    return a + b\n\n\nclass X:\n\tpass\r\n\r\n",
    "漢字かな交じり文、한국어 텍스트 नमस्ते ไทย مرحبا שלום",
    "😀👩‍👩‍👧‍👦🏳️‍🌈 naïve cafe\u0301 ẞ İ",
    "1234567890 3.14159 1,000,000 0x1F ½ Ⅷ",
    "<|im_start|>user\nhi<|im_end|><|endoftext|><|eot_id|><|begin_of_text|><s></s><unk>",
    "   leading   and    runs \t\t of \n\n\n  white   \n space   ",
    "I'm you're WE'LL he'd 'twas it's'",
    "Ω≈ç√∫ \u202e\u200b \x00\x01\x7f \xa0\xad end",
    "a" * 3000,
    "!!!???###$$$ --- ___ /// https://example.com/a?b=c&d=%20#frag",
    "x\r\ny\rz",
    "\n",
    " ",
    "",
)


def loaded(tmp_path, family="byte level", **changes):
    folder = FAMILIES[family](tmp_path / "model")
    change(folder, "tokenizer_config.json", **changes)
    return load_tokenizer(folder, SIZE)


def said(tokenizer, tokens):
    return b"".join(map(tokenizer.token_bytes, tokens))


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_give_back_the_text_whatever_its_script(tmp_path, family):
    tokenizer = loaded(tmp_path, family)
    for text in TEXTS:
        back = said(tokenizer, tokenizer.encode(text).tolist())
        assert back == text.encode() or (family != "byte level" and back == f" {text}".encode())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_that_is_no_unicode_is_still_read(tmp_path, family):
    tokenizer = loaded(tmp_path, family)
    assert tokenizer.encode("a\ud800").tolist() == tokenizer.encode("a?").tolist()


@pytest.mark.parametrize(
    ("family", "text"), [("byte level", "<|im_end|>"), ("pieces", "</s>"), ("unigram", "</s>")]
)
def test_control_tokens_are_read_only_where_they_are_meant(tmp_path, family, text):
    tokenizer = loaded(tmp_path, family)
    [*_, end] = tokenizer.encode("the" + text, special=True).tolist()
    assert tokenizer.token_text(end) == text
    assert tokenizer.token_bytes(end) == b""
    assert end == tokenizer.eos
    assert end in tokenizer.ends
    plain = tokenizer.encode("the" + text).tolist()
    assert end not in plain
    assert said(tokenizer, plain).endswith(b"the" + text.encode())


def test_no_merges_make_a_control_token_of_text(tmp_path):
    folder = pieces(tmp_path / "model")
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    texts = [*model["vocab"], "<", "/", ">", "</", "s>"]
    merges = [*model["merges"], ["<", "/"], ["s", ">"], ["</", "s>"]]
    for form in (merges, [" ".join(pair) for pair in merges]):
        vocabulary = {text: at for at, text in enumerate(texts)}
        change(folder, model={**model, "vocab": vocabulary, "merges": form}, added_tokens=[])
        tokenizer = load_tokenizer(folder, SIZE)
        found = [tokenizer.token_text(token) for token in tokenizer.encode("a</s>").tolist()]
        assert found == ["▁a", "</", "s>"]
        assert tokenizer.encode("a</s>", special=True).tolist()[-1] == tokenizer.eos


@pytest.mark.parametrize("family", FAMILIES)
def test_the_size_is_that_of_the_models_logits_and_padding_says_nothing(tmp_path, family):
    tokenizer = loaded(tmp_path, family)
    assert tokenizer.size == SIZE
    texts = {tokenizer.token_text(token) for token in range(SIZE)}
    assert len(texts) == SIZE
    used = [text for text in texts if not text.startswith("<unused")]
    padding = range(len(used), SIZE)
    assert {tokenizer.token_bytes(token) for token in padding} <= {b""}
    assert tokenizer.kind == ("unigram" if family == "unigram" else "bpe")


def test_byte_level_tokens_are_spelt_in_letters_and_say_bytes(tmp_path):
    tokenizer = loaded(tmp_path)
    assert tokenizer.token_text(THE) == "Ġthe"
    assert tokenizer.token_bytes(THE) == b" the"
    assert tokenizer.token_bytes(vocabulary().id_of("ĊĊ")) == b"\n\n"
    assert [tokenizer.token_bytes(byte) for byte in range(256)] == [bytes([b]) for b in range(256)]


def test_pieces_say_spaces_and_bytes_for_what_stands_for_them(tmp_path):
    tokenizer = loaded(tmp_path, "pieces")
    tokens = tokenizer.encode("the the\né").tolist()
    texts = ["▁the", "▁the", "<0x0A>", "<0xC3>", "<0xA9>"]
    assert [tokenizer.token_text(token) for token in tokens] == texts
    assert [*map(tokenizer.token_bytes, tokens)] == [b" the", b" the", b"\n", b"\xc3", b"\xa9"]
    assert said(tokenizer, tokenizer.encode("<0x0A>").tolist()) == b" <0x0A>"


def test_a_unigram_vocabulary_cuts_where_it_is_likeliest(tmp_path):
    tokenizer = loaded(tmp_path, "unigram")
    tokens = tokenizer.encode("the code").tolist()
    assert [tokenizer.token_text(token) for token in tokens] == ["▁the", "▁code"]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_added_token_that_is_text_says_its_text(tmp_path, family):
    folder = FAMILIES[family](tmp_path / "model")
    add(folder, {"content": "<tööl>"})
    tokenizer = load_tokenizer(folder, SIZE + 1)
    for special in (False, True):
        tokens = tokenizer.encode("the<tööl>", special=special).tolist()
        assert tokenizer.token_text(tokens[-1]) == "<tööl>"
        assert tokenizer.token_bytes(tokens[-1]) == "<tööl>".encode()


def test_the_settings_have_the_last_word_on_what_is_special(tmp_path):
    text, control = {"content": "<|im_start|>"}, {"content": "[unused0]", "special": True}
    tokenizer = loaded(tmp_path, added_tokens_decoder={"366": text, "368": control})
    assert tokenizer.token_bytes(366) == b"<|im_start|>"
    assert tokenizer.encode("<|im_start|>").tolist() == [366]
    assert tokenizer.token_bytes(368) == b""
    assert 368 not in tokenizer.encode("[unused0]").tolist()
    assert tokenizer.encode("[unused0]", special=True).tolist() == [368]


def test_settings_that_contradict_the_tokens_change_nothing(tmp_path):
    entries = {"366": {"content": "<|other|>"}, "380": {"content": "Ġthe"}}
    tokenizer = loaded(tmp_path, added_tokens_decoder=entries)
    assert tokenizer.token_text(366) == "<|im_start|>"
    assert tokenizer.token_text(380) == vocabulary().tokens[380]
    assert len(tokenizer.encode("<|other|>", special=True)) > 1


def test_a_token_only_the_settings_add_is_known(tmp_path):
    folder = byte_level(tmp_path / "model")
    entries = {"384": {"content": "<|new|>", "special": True}}
    change(folder, "tokenizer_config.json", added_tokens_decoder=entries, eos_token="<|new|>")
    tokenizer = load_tokenizer(folder, SIZE + 1)
    assert tokenizer.encode("<|new|>", special=True).tolist() == [384]
    assert tokenizer.eos == 384


def test_tokens_the_settings_add_in_any_order_get_their_numbers(tmp_path):
    folder = byte_level(tmp_path / "model")
    entries = {"385": {"content": "<|b|>"}, "384": {"content": "<|a|>"}}
    change(folder, "tokenizer_config.json", added_tokens_decoder=entries)
    tokenizer = load_tokenizer(folder, SIZE + 2)
    assert tokenizer.encode("<|a|><|b|>").tolist() == [384, 385]


@pytest.mark.parametrize("flag", ["single_word", "lstrip", "rstrip", "normalized"])
@pytest.mark.parametrize("special", [True, False])
def test_added_tokens_are_found_as_transformers_finds_them(tmp_path, flag, special):
    folder = pieces(tmp_path / "model")
    add(folder, {"content": "xy z", "special": special, flag: True})
    ours, theirs = load_tokenizer(folder, SIZE), AutoTokenizer.from_pretrained(str(folder))
    distinct = set()
    for text in ("axy z b", "a xy z b", "xy z", " xy z  b"):
        tokens = theirs.encode(text, add_special_tokens=False)
        assert ours.encode(text, special=True).tolist() == tokens
        distinct.update(tokens)
    assert ours.size - 1 > max(distinct) >= 294


def test_added_tokens_the_model_has_no_logits_for_are_text(tmp_path):
    folder = byte_level(tmp_path / "model")
    add(folder, {"content": "<image>", "special": True})
    tokenizer = load_tokenizer(folder, SIZE)
    tokens = tokenizer.encode("<image>", special=True)
    assert max(tokens) < SIZE
    assert said(tokenizer, tokens.tolist()) == b"<image>"


def test_what_a_file_says_of_training_is_not_done(tmp_path):
    folder = pieces(tmp_path / "model")
    before = load_tokenizer(folder, SIZE)
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    cut = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    filled = {"strategy": {"Fixed": 512}, "direction": "Left", "pad_to_multiple_of": None}
    filled |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "!"}
    for changes in ({"padding": filled}, {"truncation": {**cut, "max_length": 0}}):
        change(folder, model={**model, "dropout": 0.9}, **{"truncation": cut, **changes})
        after = load_tokenizer(folder, SIZE)
        assert after.encode(TEXTS[0]).tolist() == before.encode(TEXTS[0]).tolist()
        assert after.starts == before.starts


def test_threads_may_read_control_tokens_and_text_at_once(tmp_path):
    tokenizer = loaded(tmp_path)
    text = "the code <|im_start|> is <|im_end|> the sea\n" * 200
    expected = [tokenizer.encode(text, special=special).tolist() for special in (False, True)]
    assert expected[0] != expected[1]
    encoded = [[], [], [], []]

    def read(at):
        special = at % 2 == 1
        encoded[at] += [tokenizer.encode(text, special=special).tolist() for _ in range(40)]

    threads = [threading.Thread(target=read, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert encoded == [[tokens] * 40 for tokens in expected * 2]


def test_a_text_the_file_cannot_cope_with_is_an_error_of_one_line(tmp_path, capfd):
    folder = byte_level(tmp_path / "model")
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}
    change(folder, pre_tokenizer={**pattern, "invert": False})
    tokenizer = load_tokenizer(folder, SIZE)
    with pytest.raises(BackendError, match=r"tokenizer\.json could not tokenise .* 41 letters"):
        tokenizer.encode("a" * 40 + "b")
    assert tokenizer.encode("b").tolist() == [ord("b")]
    capfd.readouterr()  # the library's own complaint


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_transformers_reads(tmp_path, family):
    folder = FAMILIES[family](tmp_path / "model")
    ours, theirs = load_tokenizer(folder, SIZE), AutoTokenizer.from_pretrained(str(folder))
    for text in TEXTS:
        tokens = theirs.encode(text, add_special_tokens=False)
        assert ours.encode(text, special=True).tolist() == tokens
        assert [*map(ours.token_text, tokens)] == theirs.convert_ids_to_tokens(tokens)
        if family != "unigram":  # there transformers finds control tokens in any text
            tokens = theirs.encode(text, add_special_tokens=False, split_special_tokens=True)
            assert ours.encode(text).tolist() == tokens


def test_vocabularies_of_two_folders_are_matched_token_by_token(tmp_path):
    folder = byte_level(tmp_path / "a")
    (tmp_path / "b").mkdir()
    write_tokenizer(tmp_path / "b", "shuffled")
    target, padded = load_tokenizer(folder, SIZE), load_tokenizer(folder, SIZE + 50)
    assert match(target, padded).difference is None
    shuffled = load_tokenizer(tmp_path / "b", 400)
    matched = match(target, shuffled)
    assert matched.difference is not None
    for ours, theirs in zip(matched.target_ids.tolist(), matched.draft_ids.tolist(), strict=True):
        assert target.token_text(ours) == shuffled.token_text(theirs)
    assert matched.share > 0.9
