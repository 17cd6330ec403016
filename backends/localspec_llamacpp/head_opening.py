"""Open the drafting head that a model is loaded with: in its own file, or in one beside it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from localspec.interfaces.backend import MAX_HEAD_LAG, Options
from localspec_llamacpp.bindings.context import ENCODED, Context
from localspec_llamacpp.bindings.placement import LayerPlacement
from localspec_llamacpp.bindings.shape import EAGLE3, MTP, ContextShape
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.blocks import Blocks, Chain, OneBlock, Sharing, cuts_hidden
from localspec_llamacpp.head import LlamaHead
from localspec_llamacpp.head_files import Block, DFlash, Eagle3
from localspec_llamacpp.head_kinds import kind_of, layers_read
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.metadata import Header

BLOCK = 16  # tokens that a DFlash head fills at once, where its file says nothing
GRAPHS = 4 << 20  # bytes that a context takes to describe what it computes
NUMBER = 4  # bytes of a logit, and of a part of a hidden state


@dataclass(frozen=True, slots=True)
class HeadPlan:
    """A head whose weights are open, and the context to make for it beside that of its trunk."""

    trunk: ModelWeights
    weights: ModelWeights  # those of the trunk, where the head is inside
    shape: ContextShape
    layers: tuple[int, ...] = ()  # of the trunk, whose states it reads; none: the last state
    block: Block | None = None  # that it fills in one pass
    trunk_batch: int = 0  # tokens of the trunk whose states are given at once

    @property
    def separate(self) -> bool:
        """Whether it lies in a file of its own."""
        return self.weights is not self.trunk

    @property
    def width(self) -> int:
        """The numbers of a state of the trunk's as the head reads it."""
        return len(self.layers) * self.trunk.inner_width or self.trunk.hidden_width

    @property
    def buffers(self) -> int:
        """The bytes that llama.cpp does not log: of logits, hidden states, and graphs.

        A batch of states is an output of the trunk, and kept while that computes. The head takes a
        piece in, copied, joined with what is unread, as its input, and as its output; each slot
        keeps those that are not read yet.
        """
        logits = self.outputs * self.trunk.vocabulary
        states = 2 * self.trunk_batch + 4 * self.shape.batch + MAX_HEAD_LAG * self.shape.sequences
        graphs = 2 if self.shape.graph == EAGLE3 else 1  # with its encoder's
        return graphs * GRAPHS + (logits + states * self.width) * NUMBER

    @property
    def outputs(self) -> int:
        """Rows of logits that the head gives at once; EAGLE-3 encodes with as many."""
        return self.shape.sequences * self.block.tokens if self.block else self.shape.outputs

    def context(self, trunk: Context) -> Context:
        return Context(self.weights, self.shape, trunk)

    def close(self) -> None:
        """Free the weights of a head in a file of its own."""
        if self.separate:
            self.weights.close()


def plan_head(
    trunk: ModelWeights,
    form: ContextShape,
    options: Options,
    place: LayerPlacement,
    *,
    empty: bool = False,
) -> HeadPlan:
    """Plan for a head that was loaded with its trunk (MTP), or open its own file.

    The context keeps no states, and one row of logits for each slot.
    """
    assert options.head is not None
    form = replace(form, sequences=options.slots, outputs=options.slots, snapshots=0, watched=False)
    if options.head == trunk.path:
        return HeadPlan(trunk, trunk, replace(form, graph=MTP), trunk_batch=form.batch)
    weights = ModelWeights(options.head, beside(trunk, place), head=True, empty=empty)
    try:
        return _planned(trunk, weights, form)
    except BaseException:
        weights.close()
        raise


def beside(trunk: ModelWeights, place: LayerPlacement) -> LayerPlacement:
    """Place a head where the output of its trunk is, of which it may make use.

    It may read keys, values and weights of its trunk, too, on all the devices of that.
    """
    if 0 <= place.layers <= trunk.layers:
        return place._replace(layers=0, split=(), experts_on_host=0)
    others = len(place.devices) - 1
    split = (0.0,) * others + (1.0,) if others > 0 else ()
    return place._replace(layers=-1, split=split, experts_on_host=0)


def _planned(trunk: ModelWeights, weights: ModelWeights, form: ContextShape) -> HeadPlan:
    """Read what the engine does not report of a head in the header of its file."""
    header = read(weights.path)
    if kind_of(header).shares:  # it runs the newest token of each slot, and nothing else
        shape = replace(form, graph=MTP, batch=form.sequences)
        return HeadPlan(trunk, weights, shape, trunk_batch=form.batch)
    if kind_of(header).proposer == MTP:
        return HeadPlan(trunk, weights, replace(form, graph=MTP), trunk_batch=form.batch)
    graph = header.text("general.architecture") or ""
    layers = layers_read(header)
    block = None
    if graph != EAGLE3:
        block = _block(weights, header, form.batch // form.sequences)
    rows = form.sequences * (block.tokens if block else 1)
    # Its graph computes logits of all tokens of a batch, so that long ones would take much memory.
    # And what leaves a window would have to be read again after a truncation.
    batch = max(rows, ENCODED)
    shape = replace(form, graph=graph, full_windows=True, batch=batch, micro_batch=batch)
    shape = replace(shape, outputs=batch)
    return HeadPlan(trunk, weights, shape, layers, block, form.batch)


def _block(weights: ModelWeights, header: Header, most: int) -> Block:
    """Choose a block: as it was trained, but of at most `most` tokens, as a batch has room for."""
    tensors = {tensor.name for tensor in header.tensors}
    is_dspark = "markov_w1.weight" in tensors
    is_dflash_2 = "selector_hidden.weight" in tensors
    if weights.mask is None:
        header.refuse("names no mask token: convert it again")
    # DSpark may draft at the first position of a block, too, which holds the text's newest token.
    anchored = bool(header.number("dflash.sample_from_anchor", 1))
    first_drafting = 0 if is_dspark and anchored else 1
    tokens = min(header.number("dflash.block_size", BLOCK), most)
    if tokens <= first_drafting:
        header.refuse(f"fills blocks of {tokens} tokens, and so drafts none")
    candidates = header.number("dflash.selector_top_k") if is_dflash_2 else 0
    causal = bool(header.number("dflash.attention.causal"))
    return Block(tokens, first_drafting, weights.mask, causal, candidates)


def head_of(plan: HeadPlan, trunk: Context, options: Options) -> LlamaHead:
    """Set up a head that follows a trunk."""
    with ExitStack() as stack:
        stack.callback(plan.close)
        context = plan.context(trunk)
        stack.callback(context.close)
        trunk.tell_before(plan.layers)
        blocks = blocks_of(plan, context, trunk)
        batch = plan.trunk_batch if context.shares(trunk) else plan.shape.batch
        words = plan.trunk.vocabulary
        return LlamaHead(blocks, options.slots, batch, stack.pop_all(), words)


def blocks_of(plan: HeadPlan, context: Context, trunk: Context) -> Blocks:
    if plan.block is not None:
        return DFlash(context, plan.width, plan.block, plan.trunk.vocabulary)
    if plan.shape.graph == EAGLE3:
        return Eagle3(context, plan.width)
    if context.shares(trunk):
        return Sharing(context, trunk)
    with ThreadPoolExecutor(1) as thread:  # that ends: OpenMP keeps threads for each that stays,
        cuts = thread.submit(cuts_hidden, context).result()  # and then lets all spin less
    context.tell_hidden(outputs_only=cuts)
    count = plan.weights.drafting_layers
    return Chain(context, count) if count > 1 else OneBlock(context)
