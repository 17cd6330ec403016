"""The plan of a comparison: prompts, settings, servers with options, the build of llama-server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.comparison import llama_server
from benchmarks.comparison.measure import section_bodies
from benchmarks.comparison.plan import ComparisonWish, Setting, settings
from benchmarks.comparison.questions import (
    MOST_LETTERS,
    by_category,
    long_prompts,
    mixed,
    sessions,
)
from benchmarks.comparison.sides import GUESSING, LLAMA_SERVER, USUAL, Starter, sides_of
from benchmarks.comparison.task_sets import PeerPrompt, read
from benchmarks.peers import arguments, modes, require_folder, starter_of
from localspec.base.errors import UsageError
from localspec_build import records
from localspec_build.records import Installed

CATEGORIES = {
    *("code edit", "coding", "conversation", "extraction", "mathematics", "questions"),
    *("retrieval", "summarisation", "translation"),
}


def file_of(folder, *entries):
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in entries), encoding="utf-8")
    return path


def test_our_own_prompts_are_of_every_category():
    assert {each.category for each in read()} == CATEGORIES


def test_of_a_file_with_turns_the_first_is_asked_and_ours_that_repeat_besides(tmp_path):
    path = file_of(
        tmp_path,
        {"category": "math_reasoning", "turns": ["one and one?", "and two?"], "id": 3},
        {"category": "roleplay", "turns": ["be a king"]},
    )
    contents = read([str(path)])
    assert contents[:2] == [
        PeerPrompt("mathematics", "one and one?"),
        PeerPrompt("conversation", "be a king"),
    ]
    assert {each.category for each in contents[2:]} == {"code edit", "extraction"}


def test_a_file_may_have_the_form_of_localspec_bench(tmp_path):
    path = file_of(tmp_path, {"category": "qa", "prompt": "why?"})
    assert read([str(path)])[0] == PeerPrompt("questions", "why?")


def test_a_file_without_what_is_needed_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="without category or turns"):
        read([str(file_of(tmp_path, {"turns": ["x"]}))])
    with pytest.raises(UsageError, match="cannot be read"):
        read([str(tmp_path / "nothing.jsonl")])


def test_one_stream_asks_so_many_short_prompts_of_each_category():
    questions = [PeerPrompt("a", "x" * size) for size in (1, 2, 3, MOST_LETTERS + 1)]
    chosen_ones = by_category([*questions, PeerPrompt("b", "y")], 2, seed=1)
    assert [each.category for [each] in chosen_ones] == ["a", "a", "b"]
    assert all(len(each.prompt) <= MOST_LETTERS for [each] in by_category(questions, 9, seed=1))


def test_streams_ask_different_prompts_of_all_categories():
    questions = [PeerPrompt(category, f"{category}{n}") for category in "abc" for n in range(9)]
    mixture = mixed(questions, 6, seed=1)
    assert len({each.prompt for each in mixture}) == 6
    assert sorted(each.category for each in mixture) == list("aabbcc")


def test_of_few_prompts_several_streams_ask_as_many_whole_sections_as_there_are():
    questions = [PeerPrompt("a", f"a{number}") for number in range(27)]

    def sizes(streams):
        [combination] = settings(questions, ComparisonWish((streams,), (0.0,), depths=()))
        return [len(section) for section in combination.sections]

    assert sizes(4) == [8, 8, 8]
    assert sizes(16) == [27]
    with pytest.raises(UsageError, match="28 streams need as many different prompts, 27 exist"):
        sizes(28)


def test_long_prompts_are_long_and_begin_differently():
    one, other = long_prompts(read(), 4000, 2, seed=1)
    assert min(len(one.prompt), len(other.prompt)) > 14_000
    assert one.prompt[:50] != other.prompt[:50]


def test_a_depth_that_the_prompts_do_not_reach_is_refused_with_what_would_help():
    with pytest.raises(UsageError, match="prompts of 4,250 letters, there are 3: name more"):
        long_prompts([PeerPrompt("a", "xyz")], 1000, 1, seed=1)


def test_there_is_a_setting_for_each_number_of_streams_and_temperature_and_a_long_one():
    listed = list(settings(read(), ComparisonWish()))
    assert [each.name for each in listed][:2] == ["one stream, T=0", "2 streams, T=0"]
    assert len(listed) == 2 * 5 + 1
    assert (listed[-1].depth, listed[-1].context) == (4000, 6144)
    for each in listed[1:5]:
        assert all(len(section) == 2 * each.streams for section in each.sections)
        assert sum(map(len, each.sections)) >= 16


def test_long_prompts_may_be_measured_alone_or_left_out():
    deep = ComparisonWish(streams=(), depths=(500, 2000))
    assert [each.depth for each in settings(read(), deep)] == [500, 2000]
    assert {each.depth for each in settings(read(), ComparisonWish(depths=()))} == {0}


def test_a_context_holds_the_longest_session_with_a_reply_half_as_long_again():
    comparison = ComparisonWish((1,), (0.0,), depths=(), max_tokens=512)
    turns = [PeerPrompt("a", "x" * 2000), PeerPrompt("a", "y" * 3000, ("x" * 2000, "z" * 2000))]
    [combination] = settings(turns, comparison)
    assert combination.context == 4096


def test_coding_tasks_are_of_ten_kinds_with_their_documents():
    contents = read(["coding"])
    assert len({each.category for each in contents}) == 10
    assert not any("{queue}" in each.prompt for each in contents)
    assert sum("class JobQueue:" in each.prompt for each in contents) == 4


def test_each_turn_of_an_agent_comes_behind_the_turns_before_it_in_one_session():
    contents = read(["agent"])
    assert [len(each.history) for each in contents] == [0, 2, 4, 0, 2, 4]
    assert contents[1].history == (contents[0].prompt, contents[2].history[1])
    assert [len(session) for session in sessions(contents)] == [3, 3]


def test_functions_of_a_file_in_the_form_of_humaneval_are_to_be_completed(tmp_path):
    path = file_of(tmp_path, {"entry_point": "f", "prompt": "def f(x):\n"})
    [content] = read([str(path)])
    assert content.category == "completion"
    assert content.prompt.startswith("Complete this Python function")
    assert "def f(x):" in content.prompt


def test_several_task_sets_are_asked_one_after_the_other(tmp_path):
    path = file_of(tmp_path, {"category": "qa", "prompt": "why?"})
    assert len(read(["coding", "agent", str(path)])) == 27


def test_the_turns_of_a_session_begin_alike_and_other_sessions_do_not():
    turns = [PeerPrompt("agent", "do"), PeerPrompt("agent", "again", ("do", "done"))]
    setting = Setting("x", 1, 0.0, 2048, [[*turns, PeerPrompt("qa", "do")]])
    begins = [
        [message["content"] for message in body["messages"]]
        for body in section_bodies(setting, 0, 0, 8)
    ]
    assert begins == [["(1.1.1) do"], ["(1.1.1) do", "done", "again"], ["(1.1.2) do"]]


def test_no_prompt_is_asked_twice_in_a_setting():
    for each in settings(read(), ComparisonWish()):
        prompts = [question.prompt for section in each.sections for question in section]
        assert len(set(prompts)) == len(prompts), each.name


def test_llama_server_is_always_the_first_side():
    assert [each.name for each in sides_of([GUESSING], [])] == [LLAMA_SERVER, GUESSING]
    assert [each.name for each in sides_of(USUAL, [])] == list(USUAL)


def test_more_of_our_servers_have_options_of_their_own():
    *_, last = sides_of([], ["exact=--kv-type f16 --depth 2"])
    assert (last.name, last.program) == ("exact", "localspec")
    assert last.options == ("--kv-type", "f16", "--depth", "2")


@pytest.mark.parametrize("text", ["no options", "=--plain", "localspec=--plain"])
def test_what_is_no_further_server_of_ours_is_refused(text):
    with pytest.raises(SystemExit, match="is not NAME=OPTIONS"):
        sides_of([], [text])


def test_more_of_their_servers_have_options_of_their_own():
    *_, last = sides_of([], [], ["long=--spec-type ngram-mod --spec-ngram-mod-n-max 128"])
    assert (last.name, last.program) == ("long", "llama-server")


def test_ik_llama_cpp_is_started_as_llama_server_is():
    starter = Starter(Path("m.gguf"), Path("llama-server"), 2, Path(), ik=Path("ik-server"))
    [_, side] = sides_of(["ik-repacked"], [])
    words = starter.llama_server_command(side, 4, 2048, 81)
    assert (words[0], words[-2:]) == ("ik-server", ["--jinja", "--run-time-repack"])
    assert words[words.index("--ctx-size") + 1] == "8192"


def test_the_server_of_ik_llama_cpp_is_one_more_peer_as_soon_as_it_is_given():
    def named(*words, ik=None):
        starter = Starter(Path("m.gguf"), Path("llama-server"), 2, Path(), ik=ik)
        return modes(arguments(words), starter)

    assert named() == list(USUAL)
    assert named(ik=Path("ik-server")) == [*USUAL, "ik"]
    assert named("--modes", "ik-repacked", ik=Path("ik-server")) == ["ik-repacked"]
    with pytest.raises(SystemExit, match="mode ik needs a server: --ik FILE"):
        named("--modes", "ik")


def test_what_could_not_be_written_or_started_is_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(SystemExit, match=r"no folder .*nowhere for x.json: make it first"):
        require_folder(tmp_path / "nowhere" / "x.json")
    with pytest.raises(SystemExit, match=r"no llama-server of ik_llama.cpp at no-such-server"):
        starter_of(arguments(["--ik", "no-such-server"]), tmp_path)
    with pytest.raises(UsageError, match="own: everyday, coding, agent"):
        read(["no-such-set"])


def test_a_mode_that_is_not_known_is_refused_with_those_that_are():
    with pytest.raises(SystemExit, match="no mode 'ngram'; known: llama-server, ngram-mod"):
        sides_of(["ngram"], [])


def test_every_slot_of_llama_server_has_the_whole_context_of_one_of_ours():
    starter = Starter(Path("model.gguf"), Path("llama-server"), 2, Path())
    [_, side] = sides_of(["ngram-mod"], [])
    words = starter.llama_server_command(side, 4, 2048, 81)
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert (options["--parallel"], options["--ctx-size"]) == ("4", "8192")
    assert (options["--threads"], options["--threads-batch"]) == ("2", "2")
    assert (options["--spec-type"], options["--port"]) == ("ngram-mod", "81")


@pytest.mark.parametrize(("shares", "context"), [(False, "2048"), (True, "8192")])
def test_our_slots_have_together_as_much_context_as_those_of_llama_server(shares, context):
    starter = Starter(Path("m.gguf"), Path("llama-server"), 2, Path(), shares_cache=shares)
    options = starter.localspec_options(4, 2048)
    assert options == ["--slots", "4", "--context", context, "--threads", "2"]


def test_a_given_server_goes_before_that_of_the_environment(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for each in (one, other):
        each.touch()
    assert llama_server.find(one, {"LLAMA_SERVER": str(other)}) == one
    assert llama_server.find(None, {"LLAMA_SERVER": str(other)}) == other
    with pytest.raises(SystemExit, match="no llama-server at"):
        llama_server.find(tmp_path / "none", {})


class Builder:
    """A builder that imitates cmake without its work."""

    def __init__(self):
        self.commands = []

    def __call__(self, command):
        self.commands.append(list(command))
        if "--build" in command:
            programs = Path(command[command.index("--build") + 1]) / "bin"
            programs.mkdir(parents=True)
            for name in llama_server.PROGRAMS:
                (programs / f"{name}{llama_server.SUFFIX}").write_text("program")


SOURCES = Path("vendor") / "llama.cpp"


def built(folder, builder, *more):
    return llama_server.build(folder, builder, more, lambda: SOURCES)


def test_llama_server_is_built_once_and_nothing_else_is_kept(tmp_path):
    builder, folder = Builder(), tmp_path / "cache" / "1.2"
    server = built(folder, builder)
    configure, build = builder.commands
    assert configure[2] == str(SOURCES)
    assert build[-2:] == ["llama-server", "llama-bench"]
    assert sorted(each.stem for each in folder.iterdir()) == ["llama-bench", "llama-server"]
    assert [each.name for each in folder.parent.iterdir() if each.is_dir()] == ["1.2"]
    assert built(folder, builder) == server
    assert len(builder.commands) == 2
    assert llama_server.bench_beside(server).read_text() == "program"


def test_llama_server_is_built_for_the_card_that_the_installed_library_is_for(tmp_path):
    records.note(tmp_path, Installed("custom", "CMAKE_ARGS", "built here", "", ("-DGGML_BLAS=on",)))
    assert llama_server.as_installed(tmp_path) == (("custom",), ("-DGGML_BLAS=on",))
    records.note(tmp_path, Installed("cpu", "x86_64", "built here", "", ("-DGGML_RPC=on",)))
    assert llama_server.as_installed(tmp_path)[0] == ()
    flagged = ("-DGGML_RPC=on", "-DCMAKE_CXX_FLAGS=-mno-avx512fp16")
    records.note(tmp_path, Installed("cpu", "x86_64", "built here", "", flagged))
    assert llama_server.as_installed(tmp_path)[0] == ("cpu",)
    builder = Builder()
    built(tmp_path / "1.2-custom", builder, "-DGGML_BLAS=on")
    assert "-DGGML_BLAS=on" in builder.commands[0]


def test_a_build_that_fails_tells_the_end_of_its_log_and_leaves_nothing(tmp_path):
    def failing(command):
        say = "import sys; print('no compiler'); sys.exit(2)"
        llama_server.logged(tmp_path / "log")([sys.executable, "-c", say])

    folder = tmp_path / "cache" / "1.2"
    with pytest.raises(SystemExit, match=r"(?s)no compiler.*failed: see"):
        built(folder, failing)
    assert [each for each in folder.parent.iterdir() if each.is_dir()] == []


def test_a_tool_that_is_missing_is_named(tmp_path):
    with pytest.raises(SystemExit, match="no-such-cmake cannot be run"):
        llama_server.logged(tmp_path / "log")(["no-such-cmake"])
