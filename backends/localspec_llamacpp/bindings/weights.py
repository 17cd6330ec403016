"""A loaded model file and its vocabulary."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as lib
import numpy as np

from localspec.base.errors import BackendError, OutOfMemory, UsageError
from localspec.base.interruption import HeldInterrupt, interrupt_held
from localspec.base.tokens import Tokens
from localspec.interfaces.backend import Adapter, Progress, silent
from localspec_llamacpp import worker_graphs
from localspec_llamacpp.bindings import huge_pages, products
from localspec_llamacpp.bindings.lifetime import Lifetime
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.bindings.placement import LayerPlacement, experts_stay
from localspec_llamacpp.text_pieces import SpecialToken

INFILL = {
    "prefix": lib.llama_vocab_fim_pre,
    "suffix": lib.llama_vocab_fim_suf,
    "middle": lib.llama_vocab_fim_mid,
    "pad": lib.llama_vocab_fim_pad,
    "repository": lib.llama_vocab_fim_rep,
    "separator": lib.llama_vocab_fim_sep,
}


USER_DEFINED = lib.LLAMA_TOKEN_ATTR_USER_DEFINED
CONTROL = lib.LLAMA_TOKEN_ATTR_CONTROL | lib.LLAMA_TOKEN_ATTR_UNKNOWN
LONGEST_NAME = 64  # bytes, of an architecture
SPLIT_MODES = {
    "layer": lib.LLAMA_SPLIT_MODE_LAYER,
    "row": lib.LLAMA_SPLIT_MODE_ROW,
    "tensor": lib.LLAMA_SPLIT_MODE_TENSOR,
}


class Reading:
    """Hears from llama.cpp how much of the weights was read, and may end it.

    `callback` asks for huge pages as soon as all is allocated and nothing is read.
    """

    def __init__(
        self,
        tell: Progress,
        before: Sequence[huge_pages.Span] | None,
        interrupt: HeldInterrupt | None = None,
    ) -> None:
        self._tell, self._before = tell, before
        self._interrupt = interrupt or HeldInterrupt()
        self.failure: BaseException | None = None
        self.callback = lib.llama_progress_callback(self._hear)

    def _hear(self, share: float, _: object) -> bool:
        try:
            if not share and self._before is not None:
                huge_pages.ask_for(self._before)
            self._tell(share)
        except BaseException as failure:  # which cannot pass through llama.cpp
            self.failure = failure
        return self.failure is None and not self._interrupt.heard


class ModelWeights:
    """A loaded model file and its vocabulary.

    Any thread may tokenise, spell tokens and list special ones, also while another one closes it.
    """

    def __init__(
        self,
        path: Path,
        placement: LayerPlacement,
        *,
        head: bool = False,
        empty: bool = False,
        tell: Progress = silent,
    ) -> None:
        params = lib.llama_model_default_params()
        params.load_mtp = head
        params.n_gpu_layers = placement.layers
        params.split_mode = SPLIT_MODES[placement.split_mode]
        params.use_extra_bufts = placement.packed
        products.use(placement.own_products)
        count = len(placement.devices)
        listed = (ctypes.c_void_p * (count + 1))(*placement.devices, None)
        params.devices = ctypes.addressof(listed)
        shares = (ctypes.c_float * lib.llama_max_devices())(*placement.split)
        if placement.split:
            params.tensor_split = shares
        overrides = experts_stay(placement.experts_on_host)
        params.tensor_buft_overrides = ctypes.addressof(overrides)
        if empty:  # a model without its weights: contexts report what they would take
            params.no_alloc, params.load_mode = True, lib.LLAMA_LOAD_MODE_NONE
        else:
            params.load_mode = placement.load_mode
        self.path = path
        self._lifetime = Lifetime()
        self.adapters: list[Any] = []  # llama.cpp's pointers, which it frees with the model
        with interrupt_held() as interrupt:
            allocated = huge_pages.allocated() if placement.huge_pages else None
            reading = Reading(tell, allocated, interrupt)
            params.progress_callback = reading.callback
            LOG.take_errors()
            self.pointer = lib.llama_model_load_from_file(os.fsencode(path), params)
            worker_graphs.forget()
            if interrupt.heard and self.pointer:
                lib.llama_model_free(self.pointer)
        if not self.pointer:
            if reading.failure:
                raise reading.failure
            raise LOG.failure(f"llama.cpp could not load {path.name}")

    def load_adapters(self, adapters: Sequence[Adapter]) -> None:
        """Load adapters beside the weights; they change nothing until a context uses them."""
        for path in [adapter.path for adapter in adapters]:
            LOG.take_errors()
            with interrupt_held():
                pointer = lib.llama_adapter_lora_init(self.pointer, os.fsencode(path))
            worker_graphs.forget()
            if not pointer:
                error = LOG.failure(f"{path.name} does not fit {self.path.name}")
                raise error if isinstance(error, OutOfMemory) else UsageError(str(error))
            self.adapters.append(pointer)

    @property
    def vocab(self) -> Any:
        return lib.llama_model_get_vocab(self.pointer)

    @property
    def architecture(self) -> str:
        name = ctypes.create_string_buffer(LONGEST_NAME)
        lib.llama_model_meta_val_str(self.pointer, b"general.architecture", name, LONGEST_NAME)
        return name.value.decode("utf-8", "replace")

    @property
    def vocabulary(self) -> int:
        return int(lib.llama_vocab_n_tokens(self.vocab))

    @property
    def context(self) -> int:
        return int(lib.llama_model_n_ctx_train(self.pointer))

    @property
    def window(self) -> int:
        return int(lib.llama_model_n_swa(self.pointer))

    @property
    def recurrent(self) -> bool:
        """Return whether any layer keeps a state in place of all tokens."""
        return bool(
            lib.llama_model_is_recurrent(self.pointer) or lib.llama_model_is_hybrid(self.pointer)
        )

    @property
    def layers(self) -> int:
        """Layers of the trunk, without those of a drafting head."""
        return int(lib.llama_model_n_layer(self.pointer))

    @property
    def drafting_layers(self) -> int:
        """Layers of a drafting head in the same file (MTP)."""
        return int(lib.llama_model_n_layer_nextn(self.pointer))

    @property
    def hidden_width(self) -> int:
        """Numbers of a hidden state, as a drafting head takes it."""
        return int(lib.llama_model_n_embd_out(self.pointer))

    @property
    def inner_width(self) -> int:
        """Numbers of a hidden state between two layers."""
        return int(lib.llama_model_n_embd(self.pointer))

    @property
    def classes(self) -> int:
        """Scores that a classifier gives a text; undefined for other models."""
        return int(lib.llama_model_n_cls_out(self.pointer))

    @property
    def rerank_template(self) -> str | None:
        """The text in which a reranker wants `{query}` and `{document}`, if it wants one."""
        template: bytes | None = lib.llama_model_chat_template(self.pointer, b"rerank")
        return template.decode("utf-8", "replace") if template else None

    @property
    def mask(self) -> int | None:
        """The token that stands for one to be found."""
        return _token(lib.llama_vocab_mask(self.vocab))

    @property
    def generates(self) -> bool:
        """Return whether it writes text from left to right, without an encoder."""
        return bool(
            lib.llama_model_has_decoder(self.pointer)
            and not lib.llama_model_has_encoder(self.pointer)
            and not lib.llama_model_is_diffusion(self.pointer)
        )

    @property
    def bos(self) -> int | None:
        return _token(lib.llama_vocab_bos(self.vocab))

    @property
    def eos(self) -> int | None:
        return _token(lib.llama_vocab_eos(self.vocab))

    @property
    def starts(self) -> bool:
        return bool(lib.llama_vocab_get_add_bos(self.vocab))

    @property
    def closing(self) -> tuple[int, ...]:
        """The tokens that should end a text, if any should."""
        adds = lib.llama_vocab_get_add_eos(self.vocab)
        end = self.eos if self.eos is not None else _token(lib.llama_vocab_sep(self.vocab))
        return (end,) if adds and end is not None else ()

    @property
    def separating(self) -> tuple[int, ...]:
        """The tokens that should stand between two texts, besides the end of the first."""
        separator = _token(lib.llama_vocab_sep(self.vocab))
        adds = lib.llama_vocab_get_add_sep(self.vocab)
        return (separator,) if adds and separator is not None else ()

    def ends(self) -> frozenset[int]:
        is_end, vocab = lib.llama_vocab_is_eog, self.vocab
        return frozenset(token for token in range(self.vocabulary) if is_end(vocab, token))

    def control(self, text: str) -> int | None:
        """The control token with this text."""
        tokens: list[int] = self.tokenize(text.encode(), special=True).tolist()
        is_control = len(tokens) == 1 and lib.llama_vocab_is_control(self.vocab, tokens[0])
        return tokens[0] if is_control else None

    def infill(self) -> dict[str, int]:
        """The tokens for filling in, as the file names them or llama.cpp finds them by text."""
        tokens = {name: _token(ask(self.vocab)) for name, ask in INFILL.items()}
        return {name: token for name, token in tokens.items() if token is not None}

    def special_tokens(self, control: bool) -> Iterator[SpecialToken]:
        """Yield the tokens that are looked for in a text before the rest is tokenised."""
        with self._lifetime:
            vocab = self.vocab
            for token in range(self.vocabulary):
                flags = lib.llama_vocab_get_attr(vocab, token)
                # A token may be both: it is then looked for as one of control.
                defined = flags & (CONTROL | USER_DEFINED) == USER_DEFINED
                if (control and flags & CONTROL) or defined:
                    left = flags & lib.LLAMA_TOKEN_ATTR_LSTRIP
                    right = flags & lib.LLAMA_TOKEN_ATTR_RSTRIP
                    text = lib.llama_vocab_get_text(vocab, token)
                    yield SpecialToken(text, bool(left), bool(right))

    def tokenize(self, text: bytes, special: bool, marks: bool = False) -> Tokens:
        """Tokenise at once, which takes long for a text of many special tokens.

        `marks` adds the tokens that the vocabulary puts before and after a text.
        """
        limit = len(text) + 8
        while True:
            tokens = np.empty(limit, np.int32)
            place = tokens.ctypes.data_as(ctypes.POINTER(lib.llama_token))
            with self._lifetime:
                vocab = self.vocab
                size = lib.llama_tokenize(vocab, text, len(text), place, limit, marks, special)
            if size >= 0:
                return tokens[:size].copy()
            if size == -(1 << 31):
                raise BackendError(f"a text of {len(text):,} bytes is too long to tokenise")
            limit = -size

    def token_bytes(self, token: int) -> bytes:
        limit = 64
        while True:
            piece = ctypes.create_string_buffer(limit)
            with self._lifetime:
                size = lib.llama_token_to_piece(self.vocab, token, piece, limit, 0, False)
            if size >= 0:
                return piece.raw[:size]
            limit = -size

    def token_text(self, token: int) -> str:
        with self._lifetime:
            text: bytes = lib.llama_vocab_get_text(self.vocab, token)
        return text.decode("utf-8", "backslashreplace")

    def close(self) -> None:
        """Free the model once no call is inside it."""
        self._lifetime.end()
        with interrupt_held():
            lib.llama_model_free(self.pointer)
            worker_graphs.forget()
            self.pointer = None


def _token(value: int) -> int | None:
    return value if value >= 0 else None
