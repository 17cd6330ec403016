"""The catalogue against a hub on loopback, by headers alone."""

from __future__ import annotations

import tomllib
from contextlib import closing
from dataclasses import dataclass

import pytest

from tests import engines
from tests.backends.gguf_files import TENSORS, Typed, gguf, model, pairs
from tests.running.pulling.fake_hub import COMMIT, FakeHub
from tests.running.pulling.home import Home

MB = 1 << 20
STRANGE = "hf:people/strange"


@dataclass(frozen=True)
class Entry:
    """One offer of a catalogue; its repository has its name, if no other is given."""

    name: str
    weights: str = "q8_0"
    size: str = "1MB"
    drafter: str = "none"
    draft: str = ""
    more: str = 'good-at = ["chat"]'
    kind: str = "gguf"
    source: str = ""
    projector: str = ""

    def __str__(self) -> str:
        draft = f'draft = "{self.draft}"\n' if self.draft else ""
        source = self.source or f"hf:people/{self.name}"
        if self.projector:
            draft += f'projector = "{self.projector}"\nprojector-size = "1GB"\n'
        return (
            f'[{self.name}]\nabout = "it"\nlicence = "none"\n{self.more}\nchecked = false\n'
            f'[{self.name}.{self.kind}]\ndrafter = "{self.drafter}"\n{draft}'
            f"[{self.name}.{self.kind}.weights]\n"
            f'{self.weights} = {{ from = "{source}", size = "{self.size}" }}\n'
        )


def catalogue(*entries: Entry) -> str:
    return "\n".join(map(str, entries))


def wide(tokens: int = 16, pre: str = "llama-bpe") -> bytes:
    """A model with so many tokens."""
    changes = {
        "/tokenizer.ggml.pre": pre,
        "/tokenizer.ggml.tokens": [f"t{number}" for number in range(tokens)],
        "/tokenizer.ggml.token_type": Typed("i32", [1] * tokens),
    }
    rows = ("token_embd.weight", (64, tokens), 1, 128 * tokens)
    return gguf(pairs(changes=changes), [rows, *TENSORS[1:]])


def templated(template: str | None) -> bytes:
    return model({"/tokenizer.chat_template": template})


def test_offers_that_are_what_the_catalogue_says_are_right(hub, home):
    hub.put("people/small", "small-q8_0.gguf", model())
    weights = ("blk.1.ffn_up.weight", (64, 1 << 17), 0, 32 * MB)
    hub.put("people/large", "large-q8_0.gguf", model(tensors=[*TENSORS, weights]))
    hub.put("people/large", "mtp-large.gguf", gguf({"general.architecture": "mtp"}))
    block = ("blk.2.nextn.eh_proj.weight", (64, 1), 0, 256)
    inside = model({"nextn_predict_layers": 1}, tensors=[*TENSORS, block])
    hub.put("people/own", "own-q8_0.gguf", inside)
    hub.put("people/guesser", "guesser-q8_0.gguf", templated(None))
    for path in sorted(engines.tiny_folder("llama").iterdir()):
        large = path.suffix == ".safetensors"
        hub.put("people/folder", path.name, path.read_bytes(), large=large)
    code, out, err = home.check_catalog(
        catalogue(
            Entry("small"),
            Entry("large", size="34MB", drafter="model", draft="small:q8_0"),
            Entry("beside", source="hf:people/large", drafter="mtp", draft="hf:people/large:mtp-*"),
            Entry("own", drafter="mtp-inside"),
            Entry("guesser", more='good-at = ["drafting"]'),
            Entry("folder", "4bit", kind="mlx", drafter="model", draft="folder:4bit"),
        )
    )
    assert (code, err) == (0, ""), out
    assert out.splitlines()[0] == (
        f"small:q8_0 for llamacpp: right (1 file, {len(model()):,} bytes, llama, Q8_0, 16 tokens)"
    )
    assert out.endswith("\n6 offers, 0 problems\n")
    assert hub.sent < 4 * MB
    assert not list((home.path / "hf").rglob("*.*"))


WRONG = {
    "its size is another": (
        Entry("smaller", size="5.0GB"),
        model(),
        f"has {len(model()):,} bytes; the catalogue says 5,000,000,000",
    ),
    "there is no such file": (
        Entry("other", "q4_0", source=STRANGE),
        b"",
        "people/strange has no model for q4_0: name one; there are: strange-q5_0, strange-q8_0",
    ),
    "there is no such repository": (
        Entry("absent", source="hf:people/none"),
        b"",
        "the hub has no repository people/none",
    ),
    "it has no template": (Entry("mute"), templated(None), "has no chat template"),
    "its template raises": (
        Entry("raising"),
        templated("{{ raise_exception('never') }}"),
        "has a chat template that does not write a question (refused: never)",
    ),
    "its template drops the question": (
        Entry("deaf"),
        templated("hello"),
        "has a chat template that does not write a question (it is left out)",
    ),
    "no layers for drafting are inside": (
        Entry("headless", drafter="mtp-inside"),
        model({"nextn_predict_layers": 1}),  # as converters write it that leave the blocks out
        "has no layers for multi-token prediction inside",
    ),
    "it is cut short": (Entry("short"), model()[:-2000], "short-q8_0.gguf is cut short"),
    "it is empty": (Entry("empty"), b"", "empty-q8_0.gguf is empty"),
    "it is a web page": (
        Entry("page"),
        b"<!doctype html>" + bytes(2 * MB),
        "page-q8_0.gguf is a web page",
    ),
    "its drafter splits texts otherwise": (
        Entry("split", drafter="model", draft="strange:q8_0"),
        wide(16, "qwen2"),
        "drafter strange:q8_0 has another tokenizer: gpt2 llama-bpe, the model's gpt2 qwen2",
    ),
    "its drafter has other tokens": (
        Entry("wide", drafter="model", draft="strange:q8_0"),
        wide(300),
        "drafter strange:q8_0 has another vocabulary: 16 tokens, the model 300",
    ),
    "its drafter is not there": (
        Entry("lonely", drafter="mtp", draft=f"{STRANGE}:mtp-none.gguf"),
        model(),
        f"drafter {STRANGE}:mtp-none.gguf: people/strange has no model for mtp-none.gguf",
    ),
    "its drafter is no GGUF": (
        Entry("holed", drafter="mtp", draft=f"{STRANGE}:mtp-zeros.gguf"),
        model(),
        f"drafter {STRANGE}:mtp-zeros.gguf: mtp-zeros.gguf is not GGUF",
    ),
    "its projector is not there": (
        Entry("blind", projector=f"{STRANGE}:mmproj-none.gguf"),
        model(),
        f"projector {STRANGE}:mmproj-none.gguf: people/strange has no model for mmproj-none.gguf",
    ),
    "its projector has another size": (
        Entry("squinting", projector=f"{STRANGE}:mmproj-F16.gguf"),
        model(),
        f"projector has {len(model()):,} bytes; projector-size says 1,000,000,000",
    ),
    "it was trained for shorter texts": (
        Entry("brief", more="context = 4096"),
        model(),
        "was trained for 2,048 tokens; the catalogue says 4,096",
    ),
    "it has other layers": (
        Entry("flat", more="shape = { layers = 3, kv-heads = 2, head = 16, vocabulary = 16 }"),
        model(),
        "has 2 layers; the catalogue says 3",
    ),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> list[str]:
    """All that is said of these entries, in one run."""
    entries = [Entry("strange"), *(entry for entry, _, _ in WRONG.values())]
    with closing(FakeHub()) as hub:
        hub.put("people/strange", "strange-q8_0.gguf", wide())
        hub.put("people/strange", "strange-q5_0.gguf", wide())
        hub.put("people/strange", "mtp-zeros.gguf", bytes(4096))
        hub.put("people/strange", "mmproj-F16.gguf", model())
        for entry, data, _ in WRONG.values():
            if not entry.source:
                hub.put(f"people/{entry.name}", f"{entry.name}-q8_0.gguf", data)
        home = Home(tmp_path_factory.mktemp("home"), hub, tmp_path_factory.mktemp("cache"))
        code, out, err = home.check_catalog(catalogue(*entries))
    assert (code, err) == (1, "")
    return out.splitlines()


@pytest.mark.parametrize("what", WRONG)
def test_an_offer_is_wrong_where(told, what):
    entry, _, problem = WRONG[what]
    about = [line for line in told if line.startswith(f"{entry.name}:{entry.weights} for")]
    assert len(about) == 2, about  # one line as it is checked, one among the problems
    assert "1 problem (" in about[0]
    assert about[1].startswith(f"{entry.name}:{entry.weights} for llamacpp: {problem}")
    assert told.index(about[1]) > told.index(f"{len(WRONG) + 1} offers, {len(WRONG)} problems")


def test_a_server_that_sends_no_ranges_is_told_of_and_read_no_further(hub, home):
    hub.faults.ranges = False
    hub.put("people/large", "large-q8_0.gguf", model() + bytes(200 * MB))
    code, out, _ = home.check_catalog(catalogue(Entry("large", size="210MB")))
    assert code == 1
    assert out.endswith("large:q8_0 for llamacpp: people/large sends no parts of large-q8_0.gguf\n")
    assert hub.sent < 40 * MB


def test_as_much_is_read_as_the_header_needs_and_little_of_later_parts(hub, home):
    split = {"split.count": Typed("u16", 2), "split.tensors.count": Typed("i32", 3)}
    long = pairs(changes={"/general.filler": ["x" * MB] * 6})
    first = gguf(long | split | {"split.no": Typed("u16", 0)}, TENSORS[:2])
    second = gguf(split | {"split.no": Typed("u16", 1)}, TENSORS[2:])
    for number, data in ((1, first), (2, second)):
        hub.put("people/long", f"long-q8_0-0000{number}-of-00002.gguf", data + bytes(40 * MB))
    code, out, _ = home.check_catalog(catalogue(Entry("long", size="90MB")))
    assert code == 0, out
    assert hub.sent == (8 + 4) * MB
    assert hub.spans == [
        (begin * MB, end * MB) for begin, end in ((0, 1), (0, 1), (1, 4), (1, 4), (4, 8))
    ]


def test_a_folder_with_a_cut_file_or_no_template_is_wrong(hub, home):
    for path in sorted(engines.tiny_folder("llama").iterdir()):
        large, data = path.suffix == ".safetensors", path.read_bytes()
        hub.put("people/cut", path.name, data[:-100] if large else data, large=large)
        if path.name != "chat_template.jinja":
            data = data.replace(b"chat_template", b"other") if not large else data
            hub.put("people/mute", path.name, data, large=large)
    entries = [Entry(name, "4bit", kind="mlx") for name in ("cut", "mute")]
    code, out, _ = home.check_catalog(catalogue(*entries))
    assert code == 1
    cut, mute = out.splitlines()[-2:]
    assert cut.startswith("cut:4bit for mlx: ")
    assert "is broken: " in cut
    assert cut.endswith("download the folder again")
    assert mute == "mute:4bit for mlx: has no chat template"


def test_what_was_found_is_written_where_it_is_wished(hub, home):
    file = hub.put("people/one", "one-q8_0.gguf", model() + bytes(200 * MB))
    hub.put("people/two", "two-q8_0.gguf", templated(None))
    text = catalogue(Entry("one", size="5.0GB"), Entry("two"), Entry("three"))
    assert home.check_catalog(text, "one", "two")[0] == 1
    assert home.catalogue.read_text() == text
    code, out, _ = home.check_catalog(text, "one", "two", "--write")
    assert code == 1
    assert out.endswith("2 offers, 1 problems\ntwo:q8_0 for llamacpp: has no chat template\n")
    record = tomllib.loads(home.catalogue.read_text())
    assert record["one"]["gguf"]["weights"]["q8_0"] == {
        "from": f"hf:people/one@{COMMIT}",
        "size": "0.21GB",
        "sha256": [file.sum],
    }
    assert [record[name]["checked"] for name in ("one", "two", "three")] == [True, False, False]
    text = home.catalogue.read_text()
    assert home.check_catalog(text, "one")[0] == 0
    file.data = model() + bytes(100 * MB)
    code, out, _ = home.check_catalog(text, "one")
    assert code == 1
    assert "is not what was checked for the catalogue: its sums differ" in out


def test_a_name_that_the_catalogue_lacks_is_told(hub, home):
    code, out, err = home.check_catalog(catalogue(Entry("one")), "won")
    assert (code, out) == (1, "")
    assert err.endswith("models.toml has no won\n")
