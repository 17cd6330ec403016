"""The parameters of sampling, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from types import MappingProxyType

from localspec.base.errors import UsageError
from localspec.core.sampling.order import (
    FILTERS,
    LETTERS,
    MAX_XTC_THRESHOLD,
    MAY_DROP_BEST,
    MIN_TEMPERATURE,
    OF_TEXT,
    ORDER,
    SHIFTS,
    Steps,
)
from localspec.core.sampling.table import PARAMETERS, Parameter, check

BREAKERS = ("\n", ":", '"', "*")  # where a repetition ends for DRY, as for others
MAX_BREAKERS = 128  # each is looked for in every token
MAX_BREAKER = 128  # characters


@dataclass(frozen=True, slots=True)
class Sampling:
    """The parameters of sampling.

    temperature: 0 is greedy, the default; higher is more varied
    top_k: only the k most likely tokens; 0 is all
    top_p: only the most likely tokens, up to this probability together
    min_p: only tokens that are so likely, compared with the most likely one
    repetition: divides or multiplies the logits of every token of prompt and reply; 1 is none
    presence: is subtracted once for tokens of the reply; 0 is none
    frequency: is subtracted for each time that a token is in the reply; 0 is none
    penalty_window: the last tokens that these three look at; -1 is all
    bias: is added to the logits of tokens, by token
    typical: only tokens about as surprising as the next one is expected to be, up to this
        probability together; 1 is all
    top_n_sigma: only tokens within so many standard deviations of the highest logit; 0 is all
    xtc_probability: how often the likeliest tokens are left out; 0 is never
    xtc_threshold: of the tokens that are at least so likely, all but the last are left out
    dynatemp_range: the temperature may be so much lower where the model is sure, and higher
        where it is not; 0 is neither
    dynatemp_exponent: how fast it rises with the entropy
    dry_multiplier: is subtracted from tokens that would go on with a repetition; 0 is none
    dry_base: multiplies that for each token that the repetition is too long
    dry_allowed_length: tokens that may be repeated
    dry_window: the last tokens in which repetitions are looked for; -1 is all
    dry_breakers: texts at which a repetition ends
    mirostat: 1 or 2 steers the surprise of the text, in place of all but the temperature; 0 is off
    mirostat_tau: the surprise to reach, in bits
    mirostat_eta: how fast it is corrected
    adaptive_target: the probability that drawn tokens are to have; below 0 is off
    adaptive_decay: the weight of the tokens drawn before
    samplers: the samplers in their order; the parameters of others are off
    steps: the samplers that have something to do, by all of these
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    penalty_window: int = -1
    bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    typical: float = 1.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window: int = -1
    dry_breakers: tuple[str, ...] = BREAKERS
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    samplers: tuple[str, ...] = ORDER
    steps: Steps = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for parameter in PARAMETERS:
            parameter.check(parameter.get(self))
        for token, value in bias_items(self.bias):
            check(f"bias of token {token}", value, -1000, 1000)
        check_texts("samplers", self.samplers)
        check_texts("dry_breakers", self.dry_breakers)
        for name in self.samplers:
            if name not in LETTERS.values():
                listed = ", ".join(LETTERS.values())
                raise UsageError(f"there is no sampler {name!r}; there are: {listed}")
        if self.samplers is not ORDER:
            self._switch_off_unlisted()
        object.__setattr__(self, "steps", steps_of(self))

    def _switch_off_unlisted(self) -> None:
        """Set the parameters of samplers that are not listed to values that do nothing."""
        for parameter in PARAMETERS:
            if parameter.sampler and parameter.sampler not in self.samplers:
                off = 1.0 if parameter.field == "temperature" else neutral(parameter)
                object.__setattr__(self, parameter.field, off)

    @property
    def penalises(self) -> bool:
        penalised = self.repetition != 1 or self.presence != 0 or self.frequency != 0
        return penalised and self.penalty_window != 0

    @property
    def greedy(self) -> bool:
        return self.steps.greedy


def check_texts(name: str, texts: object) -> None:
    """Refuse what is no tuple of a few short texts."""
    if not isinstance(texts, tuple) or not all(isinstance(text, str) and text for text in texts):
        raise UsageError(f"{name} is {texts!r:.80}; it must be a tuple of texts")
    if len(texts) > MAX_BREAKERS:
        raise UsageError(f"{name} has {len(texts):,} texts; it may have {MAX_BREAKERS}")
    if (longest := max(map(len, texts), default=0)) > MAX_BREAKER:
        raise UsageError(f"{name} has a text of {longest:,} characters; it may have {MAX_BREAKER}")


def bias_items(bias: object) -> Iterable[tuple[object, float]]:
    """Return the items of a bias; refuse one that is no mapping."""
    if not isinstance(bias, Mapping):
        raise UsageError(f"bias is {bias!r}; it must map tokens to numbers")
    return bias.items()


def steps_of(sampling: Sampling) -> Steps:
    """Return the steps from logits to a distribution."""
    names = _active(sampling)
    shifts = tuple(takewhile(SHIFTS.__contains__, names))
    cuts = tuple(names[len(shifts) :])
    greedy = _are_greedy(sampling, cuts)
    usual = tuple(name for name in FILTERS if name in cuts)
    simple = greedy or (cuts == usual and not sampling.dynatemp_range)
    return Steps(shifts, cuts, greedy, simple, greedy or not {*cuts}.intersection(OF_TEXT))


def _active(sampling: Sampling) -> Sequence[str]:
    """List the samplers that change something; mirostat allows none but the temperature."""
    scales = sampling.temperature != 1
    if sampling.mirostat:
        return ["temperature", "mirostat"] if scales else ["mirostat"]
    active = {
        "penalties": sampling.penalises,
        "dry": sampling.dry_multiplier > 0 and sampling.dry_window != 0,
        "top_n_sigma": sampling.top_n_sigma > 0,
        "temperature": scales or sampling.dynatemp_range > 0,
        "top_k": sampling.top_k > 0,
        "typ_p": sampling.typical < 1,
        "top_p": sampling.top_p < 1,
        "min_p": sampling.min_p > 0,
        "xtc": sampling.xtc_probability > 0 and sampling.xtc_threshold <= MAX_XTC_THRESHOLD,
        "infill": True,
    }
    last = ["adaptive_p"] * ("adaptive_p" in sampling.samplers and sampling.adaptive_target >= 0)
    return [name for name in sampling.samplers if active.get(name)] + last


def _are_greedy(sampling: Sampling, cuts: Sequence[str]) -> bool:
    """Whether one of the cuts leaves the likeliest token alone, and none before it drops that."""
    for name in cuts:
        if name in MAY_DROP_BEST:
            return False
        if name == "infill" or (name == "top_k" and sampling.top_k == 1):
            return True
        cold = sampling.temperature < MIN_TEMPERATURE
        if name == "temperature" and cold and (sampling.mirostat or not sampling.dynatemp_range):
            return True
    return False


GREEDY = Sampling()


def neutral(parameter: Parameter) -> float:
    """Return the value at which a parameter does nothing."""
    return parameter.get(GREEDY)
