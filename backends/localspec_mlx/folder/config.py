"""The config.json of a model, bounded so that it can be laid out without harm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from localspec_mlx.folder.files import AGAIN, Object, read_object, refuse

NAME = "config.json"
BESIDE = ("generation_config.json", "hf_quant_config.json")  # mlx-lm reads them if they are there
MOST_COUNT = 8192  # of anything that is made one by one; the most seen are 896 experts
COUNT = re.compile(
    r"(?:.*_)?(?:experts?|groups?|heads?|inputs|iters|layers?|loops?|mult)(?:_.*)?|.*_num"
)
NO_COUNT = re.compile(r"(?:.*_)?(?:dim|ids?|length|rank|size|theta|width)(?:_.*)?")
MAX_AXIS = (1 << 31) - 1  # numbers along one axis
CHOOSE = "choose a language model"
GGUF = "choose a language model; encoders and rerankers are taken as GGUF"

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads")
WIDTHS = ("hidden_size", "n_embd", "d_model", "model_dim")
TOKENS = ("vocab_size", "num_vocab")
CONTEXTS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "max_sequence_length",
    "max_context_length",
    "model_max_length",
)
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
ACTIVE_EXPERTS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_topk",
    "moe_k",
    "top_k_experts",
)
SIZES = frozenset((*LAYERS, *HEADS, *WIDTHS, *TOKENS, *CONTEXTS, "num_key_value_heads", "head_dim"))
# Embed, classify, see or hear; none of them continues a text token by token.
NOT_GENERATIVE = """
    albert bert blip camembert clap clip deberta deberta-v2 distilbert electra esm eurobert
    mobilebert modernbert mpnet nomic_bert roberta segformer siglip siglip2 vit wav2vec2 whisper
    xlm-roberta
"""
OTHER_TASK = re.compile(
    r".*For(?:\w+Classification|MaskedLM|MultipleChoice|QuestionAnswering|RewardModel\w*)"
)


@dataclass(frozen=True, slots=True)
class Config:
    path: Path
    model_type: str
    values: Object

    @property
    def text(self) -> Object:
        """Return the part that is about language, where a model also sees or hears."""
        inner = self.values.get("text_config")
        return inner if isinstance(inner, dict) else {}

    def number(self, names: tuple[str, ...], *defaults: Object) -> int:
        """Read the first whole number of these names, the largest of a list; 0 if there is none."""
        for place in (self.text, self.values, *defaults):
            for value in map(place.get, names):
                listed = value if isinstance(value, list | tuple) else [value]
                numbers = [int(n) for n in listed if whole(n) and 1 <= n <= MAX_AXIS]
                if numbers:
                    return max(numbers)
        return 0


def read(folder: Path) -> Config:
    """Read config.json; refuse a model that is no text generator or cannot be laid out."""
    path = folder / NAME
    values = read_object(path)
    if values is None:
        refuse(path, f"is missing, or not a file: {AGAIN}")
    config = Config(path, model_type(path, values), values)
    check_code(config)
    check_task(config)
    check_counts(path, values)
    check_sizes(path, {**values, **config.text})
    for name in BESIDE:
        check_beside(folder / name)
    return config


def check_beside(path: Path) -> None:
    values = read_object(path)
    if values is not None:
        check_counts(path, values)
    elif path.exists():
        refuse(path, "is not a regular file: remove it")


def model_type(path: Path, values: Object) -> str:
    if "medusa_num_heads" in values:  # whose authors name no type, or their model's
        return "medusa"
    kind = values.get("speculators_model_type") or values.get("model_type")
    if isinstance(kind, str) and kind:
        return kind
    if kind is not None:
        refuse(path, f"has {kind!r} as its model_type, which is no name: {AGAIN}")
    if "_class_name" in values:
        part = f"a {values['_class_name']}, a part of a pipeline that draws or speaks"
        refuse(path, f"is of {part}: {CHOOSE}")
    return refuse(path, f"has no model_type: {CHOOSE}")


def check_code(config: Config) -> None:
    code = config.values.get("model_file")
    if code is not None:
        fault = f"wants code of its own to be run ({code}), which is not done"
        refuse(config.path, f"{fault}: {CHOOSE}")


def check_task(config: Config) -> None:
    listed = config.values.get("architectures")
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    other = next((name for name in names if OTHER_TASK.fullmatch(name)), None)
    if other:
        refuse(config.path, f"is of a {other}, which does not continue text: {GGUF}")
    encodes = config.values.get("is_encoder_decoder") is True
    if encodes or config.model_type in NOT_GENERATIVE.split():
        fault = f"is of a {config.model_type} model, which does not continue text"
        refuse(config.path, f"{fault}: {GGUF}")


def check_counts(path: Path, values: Object) -> None:
    """Bound all that a model's definition would make one by one."""
    pending: list[tuple[str, object]] = list(values.items())
    while pending:
        name, value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.items())
        elif isinstance(value, list):
            pending.extend((name, item) for item in value)
        elif type(value) is int and abs(value) > MOST_COUNT and counts(name):
            refuse(path, f"has {name} {value:,}; at most {MOST_COUNT:,} are laid out")


def check_sizes(path: Path, values: Object) -> None:
    for name in sorted(SIZES & values.keys()):
        value = values[name]
        if value is None or isinstance(value, list):
            continue
        if not whole(value):
            refuse(path, f"has {name} {value!r}, which is no whole number: {AGAIN}")
        if not 1 <= value <= MAX_AXIS:
            refuse(path, f"has {name} {value:,}; it must be 1 to {MAX_AXIS:,}: {AGAIN}")


def counts(name: str) -> bool:
    return bool(COUNT.fullmatch(name)) and not NO_COUNT.fullmatch(name)


def whole(value: object) -> TypeGuard[int | float]:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)
