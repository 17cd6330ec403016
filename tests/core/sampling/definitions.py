"""Samplers by their definitions, slow and simple: the real ones are compared with these."""

from __future__ import annotations

import math
from itertools import pairwise

from localspec.core.sampling.parameters import Sampling

MIROSTAT_TOKENS = 100


def no_bytes(_):
    return b""


def softmax(logits):
    highest = max(logits.values())
    weights = {token: math.exp(logit - highest) for token, logit in logits.items()}
    total = sum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def ranked(probs):
    return sorted(probs, key=lambda token: (-probs[token], token))


def until(order, probs, share):
    """The first tokens, up to the one that makes their sum reach the share."""
    kept, total = [], 0.0
    for token in order:
        kept.append(token)
        total += probs[token]
        if total >= share:
            break
    return kept


def entropy(probs):
    return -sum(p * math.log(p) for p in probs.values() if p > 0)


def penalised(logits, s, prompt, reply):
    window = s.penalty_window
    whole, listed = [*prompt, *reply], list(reply)
    if window >= 0:
        whole, listed = whole[max(len(whole) - window, 0) :], listed[max(len(listed) - window, 0) :]
    changed = {}
    for token, logit in logits.items():
        if token in whole:
            logit = logit / s.repetition if logit > 0 else logit * s.repetition
        if token in listed:
            logit -= s.presence + s.frequency * listed.count(token)
        changed[token] = logit
    return changed


def ends_here(breaker, before, piece):
    """Whether an occurrence of the breaker ends within the piece."""
    read = before + piece
    starts = range(len(read) - len(breaker) + 1)
    return any(
        read[at : at + len(breaker)] == breaker and at + len(breaker) > len(before) for at in starts
    )


def without_repetition(logits, s, text, spell):
    """For each token, how long a repetition of the end of the text it would go on with."""
    if s.dry_window >= 0:
        text = text[max(len(text) - s.dry_window, 0) :]
    breakers = [breaker.encode() for breaker in s.dry_breakers]
    limit = 0
    for at in reversed(range(len(text))):
        before = b"".join(map(spell, text[:at]))
        if any(ends_here(breaker, before, spell(text[at])) for breaker in breakers):
            break
        limit += 1
    changed = {}
    for token, logit in logits.items():
        longest = -1
        for at in range(1, len(text)):
            if text[at] == token:
                same = 0
                while same < at and text[at - 1 - same] == text[len(text) - 1 - same]:
                    same += 1
                longest = max(longest, min(same, limit))
        excess = longest - s.dry_allowed_length
        if excess >= 0 and not any(breaker in spell(token) for breaker in breakers):
            if s.dry_base > 1.000001:
                excess = min(excess, int(88.7228391 / math.log(s.dry_base)))
            logit -= s.dry_multiplier * s.dry_base**excess
        changed[token] = logit
    return changed


def cut(name, logits, size, s, coin):
    """One sampler that looks at logits alone: what is left, and how many tokens count as such."""
    probs = softmax(logits)
    best = ranked(probs)[0]
    kept = list(logits)
    if name == "temperature":
        by = s.temperature
        if s.dynatemp_range and not s.mirostat:
            if size < 2:
                return logits, size
            low, high = max(by - s.dynatemp_range, 0), by + s.dynatemp_range
            by = low + (high - low) * (entropy(probs) / math.log(size)) ** s.dynatemp_exponent
        if by < 1e-4:
            return {best: logits[best]}, 1
        return {token: logit / by for token, logit in logits.items()}, size
    if name == "infill":
        return {best: logits[best]}, 1
    if name == "top_k":
        return {t: logits[t] for t in ranked(probs)[: s.top_k]}, min(size, s.top_k)
    if name == "top_n_sigma":
        values = list(logits.values())
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
        floor = max(values) - s.top_n_sigma * deviation
        return {t: logit for t, logit in logits.items() if logit >= floor}, size
    if name == "top_p":
        kept = until(ranked(probs), probs, s.top_p)
    if name == "min_p":
        kept = [token for token, p in probs.items() if p >= s.min_p * probs[best]]
    if name == "typ_p":
        expected = entropy(probs)
        surprise = {t: abs(-math.log(p) - expected) if p else math.inf for t, p in probs.items()}
        kept = until(sorted(surprise, key=lambda t: (surprise[t], t)), probs, s.typical)
    if name == "xtc" and coin < s.xtc_probability:
        above = [token for token in ranked(probs) if probs[token] >= s.xtc_threshold]
        return {t: logits[t] for t in logits if t not in above[:-1]}, size - len(above[:-1])
    if name == "xtc":
        return logits, size
    return {token: logits[token] for token in kept}, len(kept)


def start(s: Sampling) -> float:
    return 2 * s.mirostat_tau if s.mirostat else s.adaptive_target


def steered(logits, s, state):
    """The distribution to draw from, and the one by which the state goes on."""
    probs = softmax(logits)
    order = ranked(probs)
    if s.mirostat == 1:
        pairs = [(a, b) for a, b in pairwise(order[:MIROSTAT_TOKENS]) if probs[b]]
        t = [math.log((at + 2) / (at + 1)) for at in range(len(pairs))]
        b = [math.log(probs[one] / probs[other]) for one, other in pairs]
        slope = sum(x * y for x, y in zip(t, b, strict=True)) / sum(x * x for x in t)
        excess = slope - 1
        count = (excess * 2**state / (1 - len(probs) ** -excess)) ** (1 / slope)
        drawn = softmax({token: logits[token] for token in order[: max(int(count), 1)]})
        return drawn, drawn
    if s.mirostat == 2:
        kept = [token for token in order if -math.log2(probs[token]) <= state] or order[:1]
        drawn = softmax({token: logits[token] for token in kept})
        return drawn, drawn
    goal = min(max(2 * s.adaptive_target - state, 0), 1)
    distance = {token: abs(p - goal) / 0.3 for token, p in probs.items()}
    return softmax({token: 5 - 10 * d * d / (1 + d) for token, d in distance.items()}), probs


def after(s, state, probability):
    """The state behind a token of this probability."""
    if s.mirostat:
        return state - s.mirostat_eta * (-math.log2(probability) - s.mirostat_tau)
    return (1 - s.adaptive_decay) * probability + s.adaptive_decay * state


def reference(s, logits, prompt, reply, state=0.0, coin=1.0, spell=no_bytes):
    """The distribution after a reply so far, and that by which a state goes on."""
    left = dict(enumerate(map(float, logits)))
    size = len(left)
    for name in ("temperature",) if s.mirostat else s.samplers:
        if name == "penalties":
            left = penalised(left, s, prompt, reply)
        elif name == "dry" and s.dry_multiplier and s.dry_window:
            left = without_repetition(left, s, [*prompt, *reply], spell)
        elif name in working(s):
            left, size = cut(name, left, size, s, coin)
    if s.mirostat or ("adaptive_p" in s.samplers and s.adaptive_target >= 0):
        return steered(left, s, state)
    probs = softmax(left)
    return probs, probs


def text_probabilities(s, logits, prompt, length, spell=no_bytes):
    """The probability of every text of so many tokens; XTC's coin falls either way.

    logits: those behind the prompt and a reply, by the reply
    """
    texts = {(): (1.0, start(s))}
    for _ in range(length):
        longer = {}
        for reply, (p, state) in texts.items():
            row = logits(reply)
            for coin, share in ((0.0, s.xtc_probability), (1.0, 1 - s.xtc_probability)):
                distribution, measured = reference(s, row, prompt, reply, state, coin, spell)
                for token, q in distribution.items():
                    if p * share * q > 0:
                        before, _ = longer.get((*reply, token), (0.0, 0.0))
                        total = before + p * share * q
                        longer[*reply, token] = (total, after(s, state, measured[token]))
        texts = longer
    return {text: p for text, (p, _) in texts.items()}


def working(s):
    """The samplers that a reference applies: others would change nothing."""
    switched_on = {
        "top_n_sigma": s.top_n_sigma > 0,
        "top_k": s.top_k > 0,
        "typ_p": s.typical < 1,
        "top_p": s.top_p < 1,
        "min_p": s.min_p > 0,
        "xtc": s.xtc_probability > 0 and s.xtc_threshold <= 0.5,
    }
    return {"temperature", "infill", *(name for name, on in switched_on.items() if on)}
