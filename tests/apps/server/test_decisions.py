"""Decisions by OpenAI's and TypeSafe's forms, as their clients read them."""

from __future__ import annotations

import json
import threading

import httpx
import openai
import pytest

from tests.apps.server.scripted import Server
from tests.apps.server.seeing import DATA, FILES, LENGTHS, seeing, texts_and_pictures

PREDICATE = {"type": "predicate", "name": "urgent", "instructions": "Is it urgent?"}
CHOICE = {
    "type": "choice",
    "name": "team",
    "instructions": [{"type": "input_text", "text": "Which team?"}],
    "choices": [
        {"value": "billing", "description": "charges"},
        {"value": True},
        {"value": "true", "description": "a text"},
    ],
}
SCORE = {
    "type": "score",
    "instructions": "How bad?",
    "levels": [{"label": "calm"}, {"label": "upset", "description": "loud"}],
}
QUESTIONS = [PREDICATE, CHOICE, SCORE]
SYSTEM_ONE = {
    "urgent": {"type": "noul", "instructions": "Is it urgent?", "criteria": {"true": "today"}},
    "team": {
        "type": "choice",
        "instructions": {"question": "Which team?"},
        "criteria": {"billing": "charges", "other": None},
    },
    "tone": {"type": "score", "instructions": "How bad?", "criteria": ["calm", {"is": "upset"}]},
}


def asked(server, **body):
    return server.client.post(
        "/v1/decisions", json={"input": "pay me", "questions": QUESTIONS} | body
    )


def asked_one(server, **body):
    return server.client.post(
        "/v1/systemone", json={"state": "pay me", "questions": SYSTEM_ONE} | body
    )


def test_openais_client_reads_the_answers_in_order(server):
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none")
    decision = client.decisions.create(model="scripted", input="pay me", questions=QUESTIONS)
    predicate, choice, score = decision.answers
    assert (predicate.type, predicate.name) == ("predicate", "urgent")
    assert 0 <= predicate.probability <= 1
    assert [pair.value for pair in choice.probabilities] == ["billing", True, "true"]
    assert sum(pair.probability for pair in choice.probabilities) == pytest.approx(1)
    assert choice.choice in ("billing", True, "true")
    assert score.name is None
    assert [(p.label, p.value) for p in score.probabilities] == [("calm", 0), ("upset", 1)]
    assert score.score == pytest.approx(score.probabilities[1].probability)
    assert decision.usage.input_tokens > decision.usage.input_tokens_details.cached_tokens > 0
    assert decision.model == "scripted"


def test_an_answer_says_how_much_of_the_probability_its_labels_had(server):
    [answer] = asked(server, questions=[PREDICATE]).json()["answers"]
    assert answer.keys() == {"type", "name", "probability", "label_mass", "temperature"}
    assert 0 < answer["label_mass"] < 1e-6  # the scripted model says something else


def test_typesafes_form_answers_under_the_same_names(server):
    answer = asked_one(server).json()
    assert answer["model"] == "scripted"
    urgent, team, tone = (answer["answers"][name] for name in ("urgent", "team", "tone"))
    assert urgent.keys() == {"type", "noul", "label_mass", "temperature"}
    assert team["probabilities"].keys() == {"billing", "other"}
    assert team["choice"] == max(team["probabilities"], key=team["probabilities"].get)
    assert tone["legend"] == {"0": "calm", "1": {"is": "upset"}}
    assert tone["score"] == pytest.approx(tone["probabilities"]["1"])
    assert 0 <= tone["confidence"] <= 1
    assert answer["usage"]["input_tokens"] > 0


def test_both_forms_ask_the_same(server):
    levels = [{"label": "calm"}, {"label": "upset"}]
    body = {"type": "score", "instructions": "How?", "levels": levels}
    question = {"type": "score", "instructions": "How?", "criteria": ["calm", "upset"]}
    [one] = asked(server, questions=[body]).json()["answers"]
    other = asked_one(server, questions={"it": question}).json()["answers"]["it"]
    assert one["score"] == other["score"]


def test_a_conversation_is_a_state_with_its_roles_calls_and_json(server):
    items = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "input_json", "data": {"order": 17}}]},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": '{"at": 1}'},
        {"type": "function_call_output", "call_id": "a", "output": "nothing there"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Gone."}]},
    ]
    texts = '[system]\nBe kind.\n\n[user]\n{"order": 17}\n\n[call of look]\n{"at": 1}\n\n'
    texts += "[result]\nnothing there\n\n[assistant]\nGone.\n\n"
    one, other = (asked(server, input=sent).json() for sent in (items, texts))
    assert one["answers"] == other["answers"]


def test_pictures_are_part_of_a_state_where_the_model_sees(server):
    seen = seeing()
    try:
        content = texts_and_pictures("See ", "[red]", "!")
        [message] = [{"role": "user", "content": content}]
        with_picture = asked(seen, input=[message], questions=[SCORE]).json()["usage"]
        without = asked(seen, input="See !", questions=[SCORE]).json()["usage"]
        more = with_picture["input_tokens"] - without["input_tokens"]
        assert more == sum(LENGTHS) + len(LENGTHS) + 1  # with the tokens around its pieces
        question = PREDICATE | {"instructions": content}
        refusal = asked(seen, questions=[question]).json()["error"]
        assert refusal["param"] == "questions.0.instructions"
    finally:
        seen.close()
    assert asked(server, input=[message]).status_code == 400


def test_assets_are_pictures_within_the_state_of_typesafes_form():
    server = seeing()
    try:
        asset = {"type": "image", "format": "png", "data_base64": DATA["red"]}
        body = {"assets": {"<a>": asset, "<a>b": asset, "<c>": asset, "<unused>": asset}}
        body["questions"] = {"tone": SYSTEM_ONE["tone"]}
        with_pictures = asked_one(server, state={"see": ["<a>", "<a>b!"], "and": "<c>"}, **body)
        assert with_pictures.is_success, with_pictures.text
        assert with_pictures.headers["x-localspec-ignored"] == "assets.?unused?"
        body |= {"state": {"see": ["", "!"], "and": ""}}
        without = asked_one(server, **body)
        tokens = [each.json()["usage"]["input_tokens"] for each in (with_pictures, without)]
        assert tokens[0] - tokens[1] == 3 * (sum(LENGTHS) + len(LENGTHS) + 1)
        for field in ("instructions", "criteria"):
            question = SYSTEM_ONE["urgent"] | {field: {"true": "as <a>"}}
            refusal = asked_one(server, **body | {"questions": {"q": question}}).json()["error"]
            assert refusal["param"] == f"questions.q.{field}"
    finally:
        server.close()


def in_parts(server, names, **body):
    """Send a body with files as TypeSafe's client does."""
    request = json.dumps({"state": "<a>", "questions": SYSTEM_ONE} | body)
    files = [(name, (name, FILES["red"], "image/png")) for name in names]
    parts = [("request", (None, request, "application/json")), *files]
    return server.client.post("/v1/systemone", files=parts)


def test_the_files_of_a_body_in_parts_are_its_assets():
    server = seeing()
    try:
        asset = {"type": "image", "part": "part0", "data_base64": "ignored"}
        joined = in_parts(server, ["part0"], assets={"<a>": asset})
        assert joined.is_success, joined.text
        whole = asked_one(server, state="<a>", assets={"<a>": {"data_base64": DATA["red"]}})
        assert joined.json()["answers"] == whole.json()["answers"]
        assert "x-localspec-ignored" not in joined.headers
        lacking = in_parts(server, ["part1"], assets={"<a>": asset}).json()["error"]
        assert lacking["param"] == "assets.<a>.part"
        assert in_parts(server, [], state=7).json()["error"]["param"].startswith("state")
    finally:
        server.close()


@pytest.mark.parametrize("body", [b"--", b"--a\r\n", b"--a\r\n\r\n{}\r\n--a--", b'--\r\nname="'])
def test_a_body_in_parts_without_a_request_is_refused(server, body):
    answer = server.client.post("/v1/systemone", content=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "request")


def test_a_body_in_parts_is_no_way_around_what_pages_must_declare(server):
    page = {"origin": "http://elsewhere", "content-type": "multipart/form-data; boundary=a"}
    body = b'--a\r\nname="request"\r\n\r\n{}\r\n--a--'
    answer = server.client.post("/v1/systemone", content=body, headers=page)
    assert "must be a JSON object" in answer.json()["error"]["message"]


def test_assets_are_refused_where_the_model_reads_text_only(server):
    body = {"state": "<a>", "assets": {"<a>": {"data_base64": DATA["red"]}}}
    assert "takes text only" in asked_one(server, **body).json()["error"]["message"]
    assert asked_one(server, assets=body["assets"]).is_success  # where none stands in the state


def test_fields_without_effect_are_named_within_questions(server):
    question = SYSTEM_ONE["urgent"] | {"colour": "red"}
    answer = asked_one(server, questions={"q": question}, models=["a"])
    assert answer.headers["x-localspec-ignored"] == "models, questions.q.colour"
    assert asked(server, questions=[PREDICATE | {"colour": "red"}]).is_success


def test_options_are_shown_in_several_orders(server):
    once, twice = (asked(server, permutations=count).json()["usage"] for count in (1, 2))
    assert twice["input_tokens"] > 1.9 * once["input_tokens"]


MANY = [{"value": f"{at}"} for at in range(256)]
NOUL, TEAM = SYSTEM_ONE["urgent"], SYSTEM_ONE["team"]
LEVELS = [{"label": f"{at}"} for at in range(11)]
DEEP = json.loads("[" * 90 + "1" + "]" * 90)


def of_choices(*choices):
    return {"questions": [CHOICE | {"choices": list(choices)}]}


def of_levels(*levels):
    return {"questions": [SCORE | {"levels": list(levels)}]}


def of_one(kind, **fields):
    return {"questions": {"a": {"type": kind, **fields}}}


HOSTILE = [
    ({"questions": []}, "questions"),
    ({"questions": None}, "questions"),
    ({"questions": "all"}, "questions"),
    ({"questions": {"a": PREDICATE}}, "questions"),
    ({"questions": [PREDICATE] * 401}, "questions"),
    ({"questions": [PREDICATE] * 10_001}, ""),
    ({"questions": [PREDICATE, CHOICE, PREDICATE]}, "questions.2.name"),
    ({"questions": [{"type": "guess", "instructions": "?"}]}, "questions.0"),
    ({"questions": [{"instructions": "?"}]}, "questions.0"),
    ({"questions": [None]}, "questions.0"),
    ({"questions": [[PREDICATE]]}, "questions.0"),
    ({"questions": [{"type": "predicate"}]}, "questions.0.predicate.instructions"),
    ({"questions": [PREDICATE | {"name": ["a"]}]}, "questions.0.predicate.name"),
    ({"questions": [PREDICATE | {"instructions": DEEP}]}, "questions.0.predicate.instructions"),
    (of_choices(*MANY), "questions.0.choice.choices"),
    (of_choices(*MANY[:1]), "questions.0.choice.choices"),
    (of_choices(*MANY[:1] * 2), "questions.0"),
    (of_choices({"value": 1}, {}), "questions.0.choice.choices.0"),
    (of_choices({"value": None}, {"value": "b"}), "questions.0.choice.choices.0"),
    (of_choices("a", "b"), "questions.0.choice.choices.0"),
    (of_choices({"value": " "}, {"value": "b"}), "questions.0"),
    (of_levels({"label": " "}, {"label": " "}), "questions.0"),
    (of_levels({"label": 3}, {"label": 4}), "questions.0.score.levels.0.label"),
    (of_levels(*LEVELS), "questions.0.score.levels"),
    (of_levels(*LEVELS[:1]), "questions.0.score.levels"),
    ({"permutations": 17}, "permutations"),
    ({"permutations": 0}, "permutations"),
    ({"permutations": 1.5}, "permutations"),
    ({"permutations": "all"}, "permutations"),
    ({"input": None}, "input"),
    ({"input": 3}, "input"),
]
HOSTILE_ONES = [
    ({"questions": {}}, "questions"),
    ({"questions": [NOUL]}, "questions"),
    ({"questions": dict.fromkeys(map(str, range(401)), NOUL)}, "questions"),
    ({"questions": {"a": None}}, "questions.a"),
    (of_one("box"), "questions.a.type"),
    (of_one("guess"), "questions.a"),
    (of_one("noul", criteria=["yes"]), "questions.a.noul.criteria"),
    (of_one("noul", criteria={"true": 1}), "questions.a.noul.criteria.true"),
    (of_one("noul", instructions=7), "questions.a.noul.instructions"),
    (of_one("choice"), "questions.a.choice.criteria"),
    (of_one("choice", criteria={}), "questions.a.choice.criteria"),
    (of_one("choice", criteria={"": None}), "questions.a"),
    (of_one("choice", criteria={"a": 1}), "questions.a.choice.criteria"),
    (of_one("choice", criteria=dict.fromkeys(map(str, range(256)))), "questions.a.choice.criteria"),
    (of_one("score", criteria="x"), "questions.a.score.criteria"),
    (of_one("score", criteria=[]), "questions.a.score.criteria"),
    (of_one("score", criteria=["x", "x"]), "questions.a"),
    (of_one("score", criteria=["x"] * 11), "questions.a.score"),
    ({"state": None}, "state"),
    ({"state": 7}, "state"),
    ({"assets": ["a"]}, "assets"),
    ({"assets": {"e": {"data_base64": "AA=="}}, "state": "e" * 1_001}, "assets"),
    ({"assets": {"a": {"type": "video"}}}, "assets.a.type"),
    ({"assets": {"a": {"type": "image", "part": "part0"}}}, "assets.a.data_base64"),
    ({"assets": {"": {"data_base64": "AA=="}}}, "assets"),
    ({"assets": {f"{at}": {"data_base64": "AA=="} for at in range(101)}}, "assets"),
]


@pytest.mark.parametrize(
    ("ask", "body", "field"),
    [(asked, *row) for row in HOSTILE] + [(asked_one, *row) for row in HOSTILE_ONES],
)
def test_a_body_without_sense_is_refused_by_its_field(server, ask, body, field):
    answer = ask(server, **body)
    assert answer.status_code == 400, answer.text
    assert (answer.json()["error"]["param"] or "").startswith(field)
    assert field in answer.json()["error"]["message"]


def test_a_question_that_does_not_fit_is_refused_with_the_numbers(server):
    long = PREDICATE | {"instructions": "x" * 9_000}
    answer = asked(server, questions=[PREDICATE | {"name": "a"}, long])
    assert answer.status_code == 400
    assert "question 2 and its state are 9," in answer.json()["error"]["message"]
    assert "loaded for 8,192" in answer.json()["error"]["message"]


def test_a_strict_server_takes_no_unknown_fields(strict):
    assert asked(strict, prompt_cache_key="a", safety_identifier="b").is_success
    assert asked(strict, colour="red").json()["error"]["param"] == "colour"


def test_questions_beside_replies_leave_slots_to_them():
    server = Server(slots=2, pause=0.002)
    try:
        some = [PREDICATE | {"name": str(at)} for at in range(60)]
        asking = threading.Thread(target=lambda: asked(server, questions=some))
        asking.start()
        assert server.ask("hello") == "You said: hello"
        assert asking.is_alive()
        asking.join()
    finally:
        server.close()


def test_a_client_that_leaves_is_asked_no_more_for():
    server = Server(pause=0.05)
    try:
        some = [PREDICATE | {"name": str(at)} for at in range(300)]
        body = {"input": "pay me", "questions": some}
        with pytest.raises(httpx.ReadTimeout):
            server.client.post("/v1/decisions", json=body, timeout=0.5)
        for _ in range(50):
            if server.idle:
                break
        assert server.idle
    finally:
        server.close()
