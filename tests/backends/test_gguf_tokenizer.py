"""Tokenizers rebuilt from a GGUF read, write and end texts as llama.cpp does with that GGUF."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from contextlib import closing, contextmanager
from itertools import combinations

import pytest

pytest.importorskip("mlx_lm")

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

from localspec.errors import ModelFileError
from localspec_llamacpp import backend as llamacpp
from localspec_mlx.folder.tokenizer import load_tokenizer
from mlx_conversion.agreement import PIECES, VOCABULARY_ONLY, compare
from mlx_conversion.gguf_file import read
from mlx_conversion.splits import GROUPS, SPLITS
from mlx_conversion.tokenizer import write_tokenizer
from tests import engines
from tests.backends.gguf_copies import COMMAND, ENVIRONMENT, copied, numbers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SPECIAL = {
    "<|endoftext|>": CONTROL,
    "<|im_end|>": USER_DEFINED,  # it ends a reply whatever its type says
    "<|fim_prefix|>": USER_DEFINED,  # and this is no text
    "<|fim_pad|>": NORMAL,
    "<tool>": USER_DEFINED,
    "    ": USER_DEFINED,
    "[unused]": UNUSED,
}
UNMERGED = "ĠHTTPServer"  # a token that no merges lead to


def corpus():
    dice = random.Random(1)
    lines = ["".join(dice.choices(PIECES, k=dice.randint(2, 8))) for _ in range(3000)]
    return [*lines, *("1234567890" * 3, "THE the The " * 9, "'s'S'll'LL", " \n \n\n \t\t  ") * 20]


@pytest.fixture(scope="module")
def merged():
    """Bytes that were merged across every border there is: each way to split shows."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=alphabet, max_token_length=8, show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return [text for text in tokens if text != UNMERGED], [" ".join(p) for p in model["merges"]]


def with_vocabulary(target, tokens, types, **keys):
    """The tiny model with other tokens; ids of the ends are those of their texts."""
    roles = {"eos": "<|endoftext|>", "bos": "<|endoftext|>", "eot": None, **keys.pop("roles", {})}
    found = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        **{f"tokenizer.ggml.{name}": value for name, value in keys.items()},
    }
    for role, text in roles.items():
        found[f"tokenizer.ggml.{role}_token_id"] = None if text is None else tokens.index(text)
    weights = {name: numbers(len(tokens), 64) for name in ("token_embd.weight", "output.weight")}
    return copied(engines.tiny("llama"), target, found, weights)


@pytest.fixture(scope="module")
def byte_level(merged, tmp_path_factory):
    """A model whose text is split as a pre-tokenizer of this name does, and its tokenizer."""
    folder, (tokens, merges) = tmp_path_factory.mktemp("splits"), merged
    tokens = [*tokens, UNMERGED, *SPECIAL]
    types = [NORMAL] * (len(tokens) - len(SPECIAL)) + list(SPECIAL.values())

    def build(name, **keys):
        made = folder / "-".join([name, *keys])
        source = made.with_name(f"{made.name}.gguf")
        if not source.exists():
            keys = {"merges": merges, "pre": name, **keys}
            with_vocabulary(source, tokens, types, **keys)
            made.mkdir()
            write_tokenizer(read(source), made)
        return source, made

    return build


def reads_alike(theirs, ours):
    texts = [*corpus()[-400:], " HTTPServer"]
    return all(theirs.encode(text).tolist() == ours.encode(text).tolist() for text in texts)


@contextmanager
def both(source, folder):
    """The tokenizers of llama.cpp and of a folder."""
    with closing(llamacpp.load(source, VOCABULARY_ONLY)) as model:
        yield model.tokenizer, load_tokenizer(folder, model.vocabulary)


FIRSTS = [names.split()[0] for names in GROUPS]


@pytest.mark.parametrize("name", FIRSTS)
def test_every_way_to_split_is_llama_cpps(name, byte_level):
    compare(*byte_level(name))


@pytest.mark.parametrize("name", sorted(SPLITS.keys() - set(FIRSTS)))
def test_every_other_name_stands_for_the_same_split_in_llama_cpp(name, byte_level):
    with both(*byte_level(name)) as (theirs, ours):
        assert reads_alike(theirs, ours)
        assert ours.starts == theirs.starts


@pytest.mark.parametrize(("one", "other"), list(combinations(FIRSTS, 2)))
def test_no_two_ways_to_split_pass_for_each_other(one, other, byte_level):
    with both(byte_level(one)[0], byte_level(other)[1]) as (theirs, ours):
        assert not reads_alike(theirs, ours)


def test_control_tokens_are_known_by_their_text_whatever_type_they_have(byte_level):
    source, folder = byte_level("qwen2")
    compare(source, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ends = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    shown = {tokenizer.id_to_token(token) for token in ends}
    assert shown - {"</s>"} == {"<|endoftext|>", "<|im_end|>", "<|fim_pad|>"}
    added = {
        token.content: token.special for token in tokenizer.get_added_tokens_decoder().values()
    }
    assert [text for text, special in added.items() if not special] == ["<tool>", "    "]


def test_a_token_that_the_file_names_has_the_type_that_the_file_says(byte_level, merged):
    text = len(merged[0]) + 1 + list(SPECIAL).index("<|fim_prefix|>")
    source, folder = byte_level("qwen2", prefix_token_id=text)
    compare(source, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert not tokenizer.get_added_tokens_decoder()[text].special


def test_a_byte_without_a_token_is_lost_and_what_stood_around_it_does_not_merge(merged, tmp_path):
    tokens, merges = ([text for text in part if "#" not in text] for part in merged)
    tokens.append("<|endoftext|>")
    types = [NORMAL] * (len(tokens) - 1) + [CONTROL]
    source = with_vocabulary(tmp_path / "few.gguf", tokens, types, merges=merges, pre="gpt-2")
    write_tokenizer(read(source), tmp_path)
    compare(source, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.encode("==").tokens == ["=="]
    assert tokenizer.encode("=#=").tokens == ["=", "="]


def test_of_two_equal_merges_the_first_counts(merged, tmp_path):
    tokens, merges = merged
    tokens = [*tokens, "<|endoftext|>"]
    types = [NORMAL] * (len(tokens) - 1) + [CONTROL]
    again = [*merges, *merges[:200]]
    source = with_vocabulary(tmp_path / "twice.gguf", tokens, types, merges=again, pre="gpt-2")
    write_tokenizer(read(source), tmp_path)
    compare(source, tmp_path)


def test_a_start_token_stands_before_every_text_if_the_file_says_so(byte_level):
    source, folder = byte_level("starcoder", add_bos_token=True)
    compare(source, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("The").tokens == ["<|endoftext|>", "The"]
    assert AutoTokenizer.from_pretrained(folder)("The").input_ids == tokenizer.encode("The").ids


@pytest.fixture(scope="module")
def pieces():
    """Tokens of more than one letter, the likeliest first, and single letters."""
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=900, limit_alphabet=150, max_token_length=8, show_progress=False
    )
    lines = [line.replace(" ", "▁").replace("\0", "") for line in corpus()]
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merged = dict.fromkeys("".join(pair) for pair in model["merges"])
    found = [text for text in merged if not {*text} & {*"<>"}]  # no way to "</s>" or "<0x0A>"
    return found, [text for text in model["vocab"] if len(text) == 1]


FIRST = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, "<tool>": USER_DEFINED}
SPELT = {f"<0x{byte:02X}>": BYTE for byte in range(256)}
ROLES = {"eos": "</s>", "bos": "<s>", "unknown": "<unk>"}


def with_pieces(target, pieces, scores=None, **keys):
    """The tiny model with tokens that merge by score."""
    longer, letters = pieces
    types = {**FIRST, **SPELT, **dict.fromkeys([*longer, *letters], NORMAL)}
    ranked = [0.0] * (len(FIRST) + len(SPELT)) + [-float(at + 1) for at in range(len(types) - 260)]
    keys = {"model": "llama", "pre": None, "merges": None, "roles": ROLES, **keys}
    return with_vocabulary(
        target, list(types), list(types.values()), scores=scores or ranked, **keys
    )


@pytest.mark.parametrize("indented", [True, False])
def test_pieces_merge_by_score_and_what_is_no_piece_is_spelt_in_bytes(pieces, indented, tmp_path):
    source = with_pieces(tmp_path / "pieces.gguf", pieces, add_space_prefix=indented)
    write_tokenizer(read(source), tmp_path)
    compare(source, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.encode("\U00010348").tokens[-4:] == ["<0xF0>", "<0x90>", "<0x8D>", "<0x88>"]
    assert tokenizer.decode(tokenizer.encode("The thing").ids) == "The thing"


def test_runs_of_one_letter_may_share_a_score(tmp_path):
    runs = ["▁" * count for count in (2, 4, 8, 3, 16, 5, 7, 6)]
    pieces = ["ab", *runs], ["a", "b", "▁", "="]
    scores = [0.0] * 260 + [-1.0] + [-1e9] * len(runs) + [-2e9 - 1000.0 * at for at in range(4)]
    source = with_pieces(tmp_path / "runs.gguf", pieces, scores)
    write_tokenizer(read(source), tmp_path)
    compare(source, tmp_path)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([-1.0] * 264, "has the same score for 'ab' and 'ba'"),
        ([-1.0], "264 tokens, but 1 scores or some not finite"),
        ([float("nan")] * 264, "264 scores or some not finite"),
    ],
)
def test_pieces_that_cannot_be_put_in_order_are_refused(scores, said, tmp_path):
    source = with_pieces(tmp_path / "pieces.gguf", (["ab", "ba"], ["a", "b"]), scores)
    with pytest.raises(ModelFileError, match=said):
        write_tokenizer(read(source), tmp_path)


def test_pieces_without_a_token_for_each_byte_are_refused(tmp_path):
    keys = {"model": "llama", "scores": [0.0] * 4, "roles": ROLES}
    source = with_vocabulary(tmp_path / "few.gguf", list(FIRST), list(FIRST.values()), **keys)
    with pytest.raises(ModelFileError, match="lacks the tokens of 256 of the 256 bytes"):
        write_tokenizer(read(source), tmp_path)


def test_a_file_that_llama_cpp_reads_in_its_own_way_is_not_converted(pieces, tmp_path):
    """For its name alone, llama.cpp drops blanks after control tokens, which no folder can say."""
    longer, letters = pieces
    name = {"general.name": "A Phi-3 of sorts"}
    source = with_pieces(tmp_path / "source.gguf", (["<|endoftext|>", *longer], letters))
    source = copied(source, tmp_path / "named.gguf", name)
    command = [*COMMAND, source, tmp_path / "folder"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 1
    assert "gguf_to_mlx: named.gguf cannot be converted exactly: llama.cpp reads" in done.stderr
    assert {path.suffix for path in tmp_path.iterdir()} == {".gguf"}


def change(path, name, value):
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))


@pytest.mark.parametrize(
    ("file", "name", "value", "said"),
    [
        ("generation_config.json", "eos_token_id", [0], "begins and ends texts by"),
        ("tokenizer_config.json", "add_bos_token", True, "begins and ends texts by"),
        ("tokenizer_config.json", "eos_token", "<tool>", "begins and ends texts by"),
        ("tokenizer.json", "pre_tokenizer", None, "reads"),
        ("tokenizer.json", "added_tokens", [], "writes token"),
    ],
)
def test_a_folder_that_says_something_else_is_found_out(
    file, name, value, said, byte_level, tmp_path
):
    source, made = byte_level("mpt")
    shutil.copytree(made, tmp_path / "changed")
    change(tmp_path / "changed" / file, name, value)
    with pytest.raises(ModelFileError, match=said):
        compare(source, tmp_path / "changed")
