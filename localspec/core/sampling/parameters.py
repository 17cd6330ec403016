"""The parameters of sampling, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from types import MappingProxyType

from localspec.base.errors import UsageError
from localspec.core.sampling.lists import LISTS
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
from localspec.core.sampling.parameter import (
    MAX_COUNT,
    Parameter,
    check,
    declared_parameters,
    document,
)

BREAKERS = ("\n", ":", '"', "*")  # where a repetition ends for DRY, as for others
MAX_BREAKERS = 128  # each is looked for in every token
MAX_BREAKER = 128  # characters


@dataclass(frozen=True, slots=True)
class Sampling:
    """The parameters of sampling; without any, it is greedy.

    bias: is added to the logits of tokens, by token
    steps: the samplers that have something to do, by all of these
    """

    temperature: float = Parameter(
        "temperature", (0, 100), "Sampling temperature; 0: greedy.", sensible=(0, 2)
    ).default(0.0)
    top_k: int = Parameter(
        "top_k", (0, MAX_COUNT), "Number of likeliest tokens to draw from; 0: all.", least=-1
    ).default(0)
    top_p: float = Parameter(
        "top_p", (1e-9, 1), "Share of probability to draw from; 1: all.", least=0
    ).default(1.0)
    min_p: float = Parameter(
        "min_p", (0, 1), "Least probability relative to the top's; 0: off."
    ).default(0.0)
    repetition: float = Parameter(
        "penalties",
        (0.01, 100),
        "Factor against tokens that occurred; 1: off.",
        own_names=("repetition_penalty", "repeat_penalty"),
        off=0,
        sensible=(0.1, 10),
    ).default(1.0)
    presence: float = Parameter(
        "penalties",
        (-100, 100),
        "Penalty on tokens of the reply; 0: off.",
        own_names=("presence_penalty",),
        sensible=(-2, 2),
    ).default(0.0)
    frequency: float = Parameter(
        "penalties",
        (-100, 100),
        "Penalty per occurrence in the reply; 0: off.",
        own_names=("frequency_penalty",),
        sensible=(-2, 2),
    ).default(0.0)
    penalty_window: int = Parameter(
        "penalties",
        (-1, MAX_COUNT),
        "Number of tokens that penalties look at; -1: all.",
        own_names=("repeat_last_n", "penalty_last_n"),
    ).default(-1)
    bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    typical: float = Parameter(
        "typ_p",
        (1e-9, 1),
        "Share of locally typical tokens; 1: all.",
        own_names=("typical_p",),
        aliases=("typical", "typ_p"),
        least=0,
    ).default(1.0)
    top_n_sigma: float = Parameter(
        "top_n_sigma",
        (0, 100),
        "Deviations below the highest logit; 0: off.",
        aliases=("nsigma",),
        least=-1,
    ).default(0.0)
    xtc_probability: float = Parameter(
        "xtc", (0, 1), "Chance to leave the likeliest tokens out; 0: off."
    ).default(0.0)
    xtc_threshold: float = Parameter(
        "xtc", (0, 1), "Probability of tokens that XTC may leave out."
    ).default(0.1)
    dynatemp_range: float = Parameter(
        "temperature", (0, 100), "How far entropy moves the temperature; 0: off.", sensible=(0, 2)
    ).default(0.0)
    dynatemp_exponent: float = Parameter(
        "temperature", (0, 100), "Exponent of the entropy in that.", aliases=("temp_exponent",)
    ).default(1.0)
    dry_multiplier: float = Parameter(
        "dry", (0, 100), "Penalty on going on with a repetition; 0: off.", sensible=(0, 10)
    ).default(0.0)
    dry_base: float = Parameter(
        "dry", (1, 100), "Its growth with each repeated token.", off=0, sensible=(1, 10)
    ).default(1.75)
    dry_allowed_length: int = Parameter(
        "dry", (0, MAX_COUNT), "Tokens that may be repeated."
    ).default(2)
    dry_window: int = Parameter(
        "dry",
        (-1, MAX_COUNT),
        "Number of tokens that it looks at; -1: all.",
        own_names=("dry_penalty_last_n",),
        aliases=("dry_range",),
    ).default(-1)
    dry_breakers: tuple[str, ...] = BREAKERS
    mirostat: int = Parameter(
        "", (0, 2), "Steers the surprise of the text, 1 or 2; 0: off.", aliases=("mirostat_mode",)
    ).default(0)
    mirostat_tau: float = Parameter(
        "", (0, 100), "The surprise that mirostat aims at, in bits."
    ).default(5.0)
    mirostat_eta: float = Parameter(
        "", (0, 100), "How fast mirostat corrects it.", sensible=(0, 1)
    ).default(0.1)
    adaptive_target: float = Parameter(
        "adaptive_p", (-1, 1), "Probability of tokens to aim at; -1: off."
    ).default(-1.0)
    adaptive_decay: float = Parameter(
        "adaptive_p", (0, 0.99), "Weight of the tokens before, in that."
    ).default(0.9)
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
                off = 1.0 if parameter.field == "temperature" else parameter.neutral
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


PARAMETERS = declared_parameters(Sampling)
GREEDY = Sampling()
document(Sampling, {parameter.field: parameter.about for parameter in PARAMETERS})
document(Sampling, {texts.field: texts.about for texts in LISTS})
