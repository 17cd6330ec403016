"""Answers of /v1/chat/completions, whole or as a stream of chunks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from localspec.apps.server.faults import Fault, openai_error
from localspec.apps.server.replies.figures import progress, timings, usage
from localspec.apps.server.replies.frame import MARK, Frame, event, new_id
from localspec.apps.server.replies.reply import Choices, Reply, Step
from localspec.apps.server.replies.spelling import Spelling
from localspec.apps.server.replies.streaming import Bodies
from localspec.apps.server.requests.chat_request import ChatRequest
from localspec.core.requests.attribution import Trail
from localspec.core.requests.job import Chunk
from localspec.formats.dialects import Arguments, Call, Content, Part, Reasoning
from localspec.running.runtime.repetition import notices_of

DONE = b"data: [DONE]\n\n"
MAX_REJECTED = 32  # tokens of a draft whose text a trace reports


def stream_error(fault: Fault) -> bytes:
    """Encode the end of a stream that cannot go on."""
    return event(openai_error(fault)) + DONE


@dataclass(slots=True, eq=False)
class ChatAnswer:
    model: str
    choices: Choices
    spelling: Spelling | None = None  # of tokens, where log-probabilities are wanted
    wants_usage: bool = False
    trails: Sequence[Trail] = ()  # one for each reply whose characters are traced to proposers
    tells_progress: bool = False
    is_old: bool = False  # whether the client knows functions, and no tools
    id: str = field(default_factory=lambda: new_id("chatcmpl-"))
    created: int = field(default_factory=lambda: int(time.time()))
    _frames: dict[tuple[int, str], Frame] = field(default_factory=dict)

    @classmethod
    def to(cls, request: ChatRequest, choices: Choices) -> ChatAnswer:
        spelling = None
        if request.alternatives is not None:
            spelling = Spelling(choices.served.runtime.tokenizer, request.post_sampling_probs)
        trails = [Trail() for _ in choices.replies] if request.localspec.trace else ()
        wants = request.wants_usage
        progress, old = request.return_progress, bool(request.functions)
        return cls(choices.served.name, choices, spelling, wants, trails, progress, old)

    async def whole(self) -> dict[str, object]:
        await self.choices.wait()
        replies = self.choices.replies
        notices = list(replies[0].result.notices)
        return {
            **self._head("chat.completion"),
            "choices": [self._choice(*numbered) for numbered in enumerate(replies)],
            "usage": usage(self.choices),
            "timings": timings(replies[0].result),
            **({"localspec": {"notices": notices}} if notices else {}),
        }

    def opening(self) -> Bodies:
        first = {"role": "assistant", "content": ""}
        return [self._chunk(number, first) for number in range(len(self.choices.replies))]

    def bodies(self, number: int, step: Step | None) -> Bodies:
        if step is None:
            return [self._waiting(number)]
        if step.chunk is None or self.spelling or self.trails:
            return self._bodies(number, step)
        return [self._plain(number, part) for part in step.parts]

    async def closing(self) -> Bodies:
        if not self.wants_usage:
            return [DONE]
        counted = {"choices": [], "usage": usage(self.choices)}
        return [event(self._head("chat.completion.chunk") | counted), DONE]

    def _waiting(self, number: int) -> bytes | None:
        read = progress(self.choices.replies[number]) if self.tells_progress else None
        return self._chunk(number, {}, more={"prompt_progress": read}) if read else None

    def _plain(self, number: int, part: Part) -> bytes:
        """Encode a part that comes without figures of its tokens."""
        match part:
            case Content(text):
                return self._frame(number, "content").around(text)
            case Reasoning(text):
                return self._frame(number, "reasoning_content").around(text)
        [delta] = self._deltas([part])
        return self._chunk(number, delta)

    def _frame(self, number: int, name: str) -> Frame:
        frame = self._frames.get((number, name))
        if frame is None:
            frame = self._frames[number, name] = Frame.split(self._chunk(number, {name: MARK}))
        return frame

    def _bodies(self, number: int, step: Step) -> list[bytes]:
        logprobs, traces = self._logprobs(step.chunk), self._traces(number, step)
        deltas = self._deltas(step.parts) or ([{}] if logprobs or traces else [])
        bodies = []
        for delta in deltas:
            trace = traces.pop(0) if traces else {}
            more = {"localspec": trace} if trace else {}
            bodies.append(self._chunk(number, delta, logprobs=logprobs, more=more))
            logprobs = None
        if step.chunk is None:
            bodies.append(self._last(number))
        return bodies

    def _last(self, number: int) -> bytes:
        reply = self.choices.replies[number]
        more: dict[str, object] = {"timings": timings(reply.result)}
        notices = notices_of(reply.result) if self.trails else reply.result.notices
        if self.trails or notices:
            more["localspec"] = {"notices": list(notices)}
        return self._chunk(number, {}, finish=self._finish(reply), more=more)

    def _traces(self, number: int, step: Step) -> list[dict[str, object]]:
        """Trace each part: its sources by characters, and with the first what the round drafted."""
        if not self.trails:
            return []
        trail, chunk = self.trails[number], step.chunk
        if chunk:
            trail.note(chunk)
        traces = [who(trail, part) for part in step.parts]
        if chunk and chunk.tokens:
            round_: dict[str, object] = {
                "rounds": chunk.rounds,
                "drafted": chunk.drafted,
                "accepted": chunk.accepted,
                "by": chunk.by,
                "ms": round(1000 * chunk.seconds, 2),
            }
            if chunk.rejected:
                spelling = Spelling(self.choices.served.runtime.tokenizer)
                round_["rejected"] = spelling.text_of(chunk.rejected[:MAX_REJECTED])
            traces[:1] = [round_ | (traces[0] if traces else {})]
        return traces

    def _deltas(self, parts: Sequence[Part]) -> list[dict[str, object]]:
        return list(map(of_old, deltas(parts))) if self.is_old else deltas(parts)

    def _finish(self, reply: Reply) -> str:
        called = self.is_old and reply.finish == "tool_calls"
        return "function_call" if called else reply.finish

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(
        self,
        number: int,
        delta: Mapping[str, object],
        *,
        finish: str | None = None,
        logprobs: object = None,
        more: Mapping[str, object] = {},
    ) -> bytes:
        choice = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return event({**self._head("chat.completion.chunk"), "choices": [choice], **more})

    def _choice(self, number: int, reply: Reply) -> dict[str, object]:
        message: dict[str, object] = {"role": "assistant", "content": reply.content or None}
        if reply.content == "" and not reply.calls:
            message["content"] = ""
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.calls and self.is_old:
            message["function_call"] = asdict(reply.calls[0])
        elif reply.calls:
            message["tool_calls"] = [
                {"id": new_id("call_"), "type": "function", "function": asdict(call)}
                for call in reply.calls
            ]
        emitted, spelling = reply.result.logprobs or (), self.spelling
        logprobs = spelling.chat_logprobs(emitted) if spelling else None
        return {
            "index": number,
            "message": message,
            "logprobs": None if logprobs is None else {"content": logprobs, "refusal": None},
            "finish_reason": self._finish(reply),
        }

    def _logprobs(self, chunk: Chunk | None) -> object:
        if chunk is None or self.spelling is None:
            return None
        logprobs = self.spelling.chat_logprobs(chunk.logprobs)
        return {"content": logprobs, "refusal": None} if logprobs else None


def who(trail: Trail, part: Part) -> dict[str, object]:
    """Name the sources of a part; of calls, whose arguments may be rewritten, none."""
    match part:
        case Content(text) | Reasoning(text):
            return {"said": trail.attribute(text)}
        case Arguments(_, text) | Call(_, text):
            trail.attribute(text)  # what comes next stands after it
            return {}


def deltas(parts: Sequence[Part]) -> list[dict[str, object]]:
    """Make a delta of each part, as clients put them together again."""
    deltas: list[dict[str, object]] = []
    for part in parts:
        match part:
            case Content(text):
                deltas.append({"content": text})
            case Reasoning(text):
                deltas.append({"reasoning_content": text})
            case Call(index, name):
                function = {"name": name, "arguments": ""}
                call = {"index": index, "id": new_id("call_"), "type": "function"}
                deltas.append({"tool_calls": [call | {"function": function}]})
            case Arguments(index, text):
                call = {"index": index, "function": {"arguments": text}}
                deltas.append({"tool_calls": [call]})
    return deltas


def of_old(delta: dict[str, object]) -> dict[str, object]:
    """Rewrite a call for clients that know functions and no tools: one, without an identifier."""
    match delta:
        case {"tool_calls": [{"function": function}]}:
            return {"function_call": function}
    return delta
