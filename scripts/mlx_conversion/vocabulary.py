"""The tokens of a GGUF and their roles, as llama.cpp understands them."""

from __future__ import annotations

from dataclasses import dataclass

from localspec_mlx.folder.marks import ENDS as SHOWN_ENDS
from mlx_conversion.gguf_file import GgufFile

PREFIX = "tokenizer.ggml."
MOST_TOKENS, LONGEST_TOKEN = 1 << 20, 1024
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Tokens that end a reply, and tokens that mark a place in code or end what was to be filled in
# there: they are known by their texts where the file has no key for what they do.
ENDS = SHOWN_ENDS | {"</s>"}
ROLES = {
    "fim_pre": names(
        "<|fim_prefix|> <fim-prefix> <fim_prefix> <\uff5cfim▁begin\uff5c> <PRE> ▁<PRE>"
        " <|code_prefix|> <|prefix|>"
    ),
    "fim_suf": names(
        "<|fim_suffix|> <fim-suffix> <fim_suffix> <\uff5cfim▁hole\uff5c> <SUF> ▁<SUF>"
        " <|code_suffix|> <|suffix|>"
    ),
    "fim_mid": names(
        "<|fim_middle|> <fim-middle> <fim_middle> <\uff5cfim▁end\uff5c> <MID> ▁<MID>"
        " <|code_middle|> <|middle|>"
    ),
    "fim_pad": names("<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]"),
    "fim_rep": names("<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame>"),
    "fim_sep": names("<|file_sep|>"),
}
OLD_NAMES = {"fim_pre": "prefix", "fim_suf": "suffix", "fim_mid": "middle"}
ENDING_ROLES = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    tokens: tuple[str, ...]
    control: frozenset[int]  # no text: a token of its own only where that is meant
    whole: frozenset[int]  # cut out of any text before it is split
    roles: dict[str, int]  # the ids of bos, eos, unknown, padding and others the file names
    ends: tuple[int, ...]

    def text_of(self, role: str) -> str | None:
        return self.tokens[self.roles[role]] if role in self.roles else None


def read_vocabulary(file: GgufFile) -> Vocabulary:
    tokens = read_tokens(file)
    types = file.number_list(PREFIX + "token_type") or [NORMAL] * len(tokens)
    if len(types) != len(tokens):
        file.refuse(f"has {len(tokens):,} tokens, but {len(types):,} token types")
    roles = read_roles(file, len(tokens))
    unnamed = {role: texts for role, texts in ROLES.items() if role not in roles}
    by_text = ENDS.union(*unnamed.values())
    ending = ENDS.union(*(unnamed.get(role, ()) for role in ENDING_ROLES))
    known = frozenset(at for at, text in enumerate(tokens) if text in by_text)
    ends = {at for at in known if tokens[at] in ending}
    ends |= {roles[role] for role in ENDING_ROLES if role in roles}
    return Vocabulary(
        tokens,
        known | frozenset(at for at, kind in enumerate(types) if kind in (UNKNOWN, CONTROL)),
        frozenset(at for at, kind in enumerate(types) if kind == USER_DEFINED) - known,
        roles,
        tuple(sorted(ends)),
    )


def read_tokens(file: GgufFile) -> tuple[str, ...]:
    texts = file.text_list(PREFIX + "tokens")
    if not 0 < len(texts) <= MOST_TOKENS:
        file.refuse(f"has {len(texts):,} tokens; 1 to {MOST_TOKENS:,} can be converted")
    tokens = tuple(text or f"[EMPTY_{at}]" for at, text in enumerate(texts))
    longest = max(tokens, key=len)
    if len(longest) > LONGEST_TOKEN:
        file.refuse(f"has a token of {len(longest):,} letters; at most {LONGEST_TOKEN:,} are read")
    if len(set(tokens)) < len(tokens):
        file.refuse(f"has {len(tokens):,} tokens, of which only {len(set(tokens)):,} differ")
    if any("\0" in text for text in tokens):
        file.refuse("has a token with a zero byte in it")
    return tokens


def read_roles(file: GgufFile, count: int) -> dict[str, int]:
    defaults = {"bos": 1, "eos": 2, "unknown": 0} if file.text(PREFIX + "model") == "llama" else {}
    found = {}
    for role in ("bos", "eos", "eot", "eom", "unknown", "padding", *ROLES):
        keys = [f"{PREFIX}{name}_token_id" for name in (role, OLD_NAMES.get(role, role))]
        key = next(filter(file.has, keys), keys[0])
        if file.has(key) or role in defaults:
            found[role] = file.integer(key, defaults.get(role))
            if not 0 <= found[role] < count:
                file.refuse(f"has a {key} of {found[role]:,}, but {count:,} tokens")
    if "eos" not in found:
        file.refuse(f"has no {PREFIX}eos_token_id, so nothing would end a text")
    return found
