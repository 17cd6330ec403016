"""Files and batches over HTTP: as OpenAI's client asks, behind everybody else, after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import openai
import pytest

from localspec.apps.server.batches.store import MAX_BATCHES, MAX_OPEN, Batch, BatchStore
from localspec.apps.server.batches.work import BatchWork
from localspec.apps.server.faults import Refused
from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.offers import Offers, ServedOffer
from localspec.apps.server.safety import Rules
from localspec.apps.server.served import Served
from localspec.apps.server.server_policy import ServerPolicy
from localspec.core.sampling.parameters import GREEDY
from tests.apps.server.scripted import Server
from tests.waiting import until

CHAT = "/v1/chat/completions"
ENDED = ("completed", "cancelled", "failed")


def policy(folder, **terms):
    return ServerPolicy(batch_dir=folder / "batches", batch_bytes=1 << 20, **terms)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    server = Server(policy=policy(tmp_path_factory.mktemp("data")))
    yield server
    server.close()


@pytest.fixture
def serve(tmp_path):
    servers = []

    def started(**terms):
        servers.append(Server(policy=policy(tmp_path), **terms))
        return servers[-1]

    yield started
    for server in servers:
        server.close()


CLIENTS = []


@pytest.fixture(autouse=True)
def closed():
    yield
    while CLIENTS:
        CLIENTS.pop().close()


def client_of(server, key="any"):
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key=key, max_retries=0)
    CLIENTS.append(client)
    return client


def asked(name, text, **more):
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], **more}
    return {"custom_id": name, "method": "POST", "url": CHAT, "body": body}


def packed(lines):
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def begun(client, lines, endpoint=CHAT):
    data = lines if isinstance(lines, bytes) else packed(lines)
    file = client.files.create(file=("in.jsonl", data), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h")


def ended(client, batch):
    until(lambda: client.batches.retrieve(batch.id).status in ENDED)
    return client.batches.retrieve(batch.id)


def lines_of(client, id):
    return {
        line["custom_id"]: line["response"]
        for line in map(json.loads, client.files.content(id).text.splitlines())
    }


def test_openais_client_uploads_a_file_and_reads_the_answers(shared):
    client = client_of(shared)
    lines = [asked(f"q{n}", f"number {n}") for n in range(12)]
    lines.append(asked("odd", "x", temperature="hot"))
    batch = begun(client, lines)
    assert (batch.object, batch.status, batch.request_counts.total) == ("batch", "in_progress", 13)
    done = ended(client, batch)
    assert (done.status, done.model) == ("completed", "scripted")
    assert (done.request_counts.completed, done.request_counts.failed) == (12, 1)
    assert done.completed_at >= done.in_progress_at >= done.created_at
    answers = lines_of(client, done.output_file_id)
    assert sorted(answers) == sorted(f"q{n}" for n in range(12))
    assert {answer["status_code"] for answer in answers.values()} == {200}
    message = answers["q7"]["body"]["choices"][0]["message"]
    assert message["content"] == "You said: number 7"
    [(name, refusal)] = lines_of(client, done.error_file_id).items()
    assert (name, refusal["status_code"]) == ("odd", 400)
    assert "temperature" in refusal["body"]["error"]["message"]
    assert done.id in [each.id for each in client.batches.list(limit=100)]
    output = client.files.retrieve(done.output_file_id)
    assert (output.purpose, output.bytes > 100) == ("batch_output", True)


def test_files_are_listed_by_pages_and_deleted(shared):
    client = client_of(shared)
    made = [client.files.create(file=("a.jsonl", b"{}\n"), purpose="batch") for _ in range(3)]
    newest = client.files.list(limit=2, purpose="batch")
    assert [file.id for file in newest.data] == [made[2].id, made[1].id]
    assert newest.has_more
    assert newest.get_next_page().data[0].id == made[0].id
    assert client.files.content(made[0].id).content == b"{}\n"
    assert client.files.delete(made[0].id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(made[0].id)


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        (b"{\n", "invalid_json_line", 1),
        (packed([asked("a", "x")]) + b"\n\n[]", "invalid_json_line", 4),
        (packed([asked("a", "x"), asked("a", "y")]), "duplicate_custom_id", 2),
        (packed([asked("a", "x"), asked("b", "x", model="other")]), "mismatched_model", 2),
        (packed([asked("a", "x") | {"url": "/v1/completions"}]), "invalid_url", 1),
        (packed([asked("a", "x") | {"url": "/v1/../metrics"}]), "invalid_json_line", 1),
        (packed([asked("a" * 600, "x")]), "invalid_json_line", 1),
        (b'{"custom_id": "a", "body": ' + b"[" * 5_000 + b"}", "invalid_json_line", 1),
        (b"\xff\xfe\0\n", "invalid_json_line", 1),
        (b'{"body": {"n": ' + b"9" * 5_000 + b"}}", "invalid_json_line", 1),
        (b"\n \n", "empty_file", None),
    ],
)
def test_a_file_that_has_no_requests_fails_by_its_lines(shared, data, code, line):
    client = client_of(shared)
    batch = begun(client, data)
    assert batch.status == "failed"
    assert (batch.errors.data[0].code, batch.errors.data[0].line) == (code, line)
    assert len(batch.errors.data) <= 20
    assert batch.output_file_id is None


def test_a_custom_id_of_half_a_character_comes_back(shared):
    client = client_of(shared)
    done = ended(client, begun(client, [asked("\ud800/../x", "hi")]))
    assert list(lines_of(client, done.output_file_id)) == ["\ud800/../x"]


@pytest.mark.parametrize("path", ["../../etc/passwd", "file-" + "a" * 24, "lock", "%2e%2e%2flock"])
def test_names_that_are_no_identifiers_find_nothing(shared, path):
    for address in (f"/v1/files/{path}", f"/v1/files/{path}/content", f"/v1/batches/{path}"):
        assert shared.client.get(address).status_code in (404, 405)
    assert shared.client.delete(f"/v1/files/{path}").status_code in (404, 405)
    body = {"input_file_id": path, "endpoint": CHAT}
    assert shared.client.post("/v1/batches", json=body).status_code == 404


def test_a_file_named_like_a_path_is_only_a_name(shared, tmp_path):
    client = client_of(shared)
    file = client.files.create(file=("../../evil\n.jsonl", b"{}"), purpose="batch")
    assert client.files.content(file.id).content == b"{}"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nno name\r\n--x--"),
        ("multipart/form-data; boundary=x", b'--x\r\nname="file"; filename="a"\r\n\r\ncut off'),
        ("multipart/form-data; boundary=x", b"--x" * 100_000),
        ("multipart/form-data; boundary=x", b'--x\r\n;name="file"\r\n\r\n{}\r\n--x--'),
    ],
)
def test_a_form_without_a_whole_file_and_its_purpose_is_refused(shared, kind, body):
    answer = shared.client.post("/v1/files", content=body, headers={"content-type": kind})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] in ("file", "purpose")


def test_a_web_page_of_a_stranger_cannot_upload(shared):
    form = {"files": {"file": ("a", b"{}")}, "data": {"purpose": "batch"}}
    headers = {"origin": "https://evil.example"}
    assert shared.client.post("/v1/files", headers=headers, **form).status_code == 403


def test_files_have_bounds_for_each_owner(shared):
    form = {"files": {"file": ("a", b"x" * (1 << 20))}, "data": {"purpose": "batch"}}
    answer = shared.client.post("/v1/files", **form)
    assert (answer.status_code, "delete some" in answer.text) == (413, True)


def test_a_batch_that_is_cancelled_keeps_what_it_has(serve):
    server = serve(pause=0.01, slots=2)
    client = client_of(server)
    batch = begun(client, [asked(str(n), "some words") for n in range(200)])
    with pytest.raises(openai.ConflictError, match="cancel it first"):
        client.files.delete(batch.input_file_id)
    waiting = begun(client, [asked("a", "x")])
    until(lambda: client.batches.retrieve(batch.id).request_counts.completed > 1)
    assert client.batches.cancel(waiting.id).status == "cancelled"
    assert client.batches.cancel(batch.id).status == "cancelling"
    done = ended(client, batch)
    assert done.status == "cancelled"
    assert len(lines_of(client, done.output_file_id)) == done.request_counts.completed < 200
    until(lambda: server.idle)
    with pytest.raises(openai.ConflictError, match="has ended"):
        client.batches.cancel(batch.id)
    client.files.delete(batch.input_file_id)


def test_a_batch_goes_on_after_a_restart(serve):
    first = serve(pause=0.005, slots=2)
    client = client_of(first)
    batch = begun(client, [asked(f"q{n}", f"n {n}") for n in range(20)])
    until(lambda: client.batches.retrieve(batch.id).request_counts.completed > 3)
    first.close()
    answered = len(first.model.used)
    record = first.policy.batch_dir / "batches" / f"{batch.id}.json"
    assert json.loads(record.read_text())["completed"] < 4  # it is written at changes alone
    second = serve()
    assert client_of(second).batches.retrieve(batch.id).request_counts.completed > 3
    done = ended(client_of(second), batch)
    assert (done.status, done.request_counts.completed) == ("completed", 20)
    answers = client_of(second).files.content(done.output_file_id).text.splitlines()
    assert len(answers) == len({json.loads(line)["custom_id"] for line in answers}) == 20
    assert answered > 0


def test_a_key_that_is_gone_has_nothing_answered_any_more(tmp_path):
    server = Server(policy=policy(tmp_path, rules=Rules(keys=("one", "two"))), pause=0.02)
    batch = begun(client_of(server, "one"), [asked("a", "word " * 20)])
    server.close()
    (server.policy.batch_dir / "file-of-nobody.jsonl").write_text("{}")
    server = Server(policy=policy(tmp_path, rules=Rules(keys=("two",))))
    two = client_of(server, "two")
    assert ended(two, begun(two, [asked("a", "x")])).request_counts.completed == 1
    record = server.policy.batch_dir / "batches" / f"{batch.id}.json"
    assert json.loads(record.read_text())["status"] == "in_progress"
    assert not (server.policy.batch_dir / "file-of-nobody.jsonl").exists()
    server.close()


def test_a_batch_leaves_a_slot_and_waits_for_models_that_were_used_just_now():
    host = ModelHost(Offers({"a": offer("a"), "b": offer("b")}), lambda model, result: None)
    a, b = (SimpleNamespace(endpoint=CHAT, served=name) for name in "ab")
    allowance = BatchWork(host, Path("nowhere"), 0, set()).allowance
    assert allowance(a, 0) == 1
    served = host.loaded["a"] = Served(offer("a"), SimpleNamespace(slots=4), None, None)
    assert (allowance(a, 0), allowance(b, 0)) == (3, 0)
    served.used -= 61
    assert allowance(b, 0) == 1
    served.users = served.batched = 3
    assert allowance(a, 3) == 3
    served.users = 4
    assert allowance(a, 3) == 3
    served.users = 5
    assert (allowance(a, 3), allowance(a, 0)) == (2, 0)
    host.lacks_memory = True
    assert allowance(a, 3) == 0


def offer(name):
    return ServedOffer(name, None, None, GREEDY, "any", "")


def test_another_model_goes_on_with_no_batch(tmp_path):
    first = Server(policy=policy(tmp_path), pause=0.02)
    batch = begun(client_of(first), [asked("a", "word " * 20, model="gpt-5")])
    first.close()
    record = first.policy.batch_dir / "batches" / f"{batch.id}.json"
    fields = json.loads(record.read_text())
    assert (fields["model"], fields["served"]) == ("gpt-5", "scripted")
    record.write_text(json.dumps(fields | {"served": "one that was there before"}))
    second = Server(policy=policy(tmp_path))
    client = client_of(second)
    ended(client, begun(client, [asked("b", "x")]))
    assert client.batches.retrieve(batch.id).request_counts.completed == 0
    assert client.batches.cancel(batch.id).status == "cancelled"
    second.close()


def test_of_too_many_batches_the_oldest_that_ended_are_forgotten(tmp_path):
    store = BatchStore(tmp_path, 1)

    def batch(n, status):
        facts = [f"b{n}", "", CHAT, "file", "24h", {}, "m", "m", 1, [], f"a{n}", f"r{n}"]
        return Batch(*facts, times={"created_at": n}, status=status)

    for n in range(MAX_BATCHES - 2):
        store.batches[f"b{n}"] = batch(n, "in_progress" if n == 0 else "completed")
    for n in range(MAX_BATCHES - 2, MAX_BATCHES + 1):
        store.begin(batch(n, "completed"))
    assert len(store.batches) == MAX_BATCHES
    assert [name for name in ("b0", "b1", "b2") if name in store.batches] == ["b0", "b2"]
    for n in range(MAX_OPEN - 1):
        store.batches[f"open{n}"] = batch(n, "in_progress")
    with pytest.raises(Refused, match="100 batches wait"):
        store.begin(batch(0, "in_progress"))
    store.close()


def test_a_folder_belongs_to_one_server(serve):
    begun(client_of(serve()), [asked("a", "x")])
    with pytest.raises(openai.InternalServerError, match="another server"):
        client_of(serve()).files.list()


def test_others_do_not_wait_for_a_batch(serve):
    server = serve(pause=0.003, slots=1)
    client = client_of(server)
    plain = {"localspec": {"plain": True}}
    batch = begun(client, [asked(str(n), "word " * 24, **plain) for n in range(2)])
    until(lambda: server.model.forwards > 5)
    started = server.model.forwards
    assert server.ask("hi") == "You said: hi"
    assert server.model.forwards - started < 60  # a request of the batch takes 120
    done = ended(client, batch)
    assert done.request_counts.completed == 2


def test_a_batch_begins_nothing_while_others_are_answered(serve):
    server = serve(pause=0.005, slots=4)
    client = client_of(server)
    body = {"messages": [{"role": "user", "content": "word " * 20}], "stream": True}
    with server.client.stream("POST", CHAT, json=body) as stream:
        lines = stream.iter_lines()
        next(lines)
        batch = begun(client, [asked("a", "x")])
        assert not [line for line in lines if '"error"' in line]
        assert client.batches.retrieve(batch.id).request_counts.completed == 0
    assert ended(client, batch).request_counts.completed == 1


def test_an_owner_sees_own_files_and_batches_alone(tmp_path):
    server = Server(policy=policy(tmp_path, rules=Rules(keys=("one", "two"))))
    one, two = client_of(server, "one"), client_of(server, "two")
    batch = ended(one, begun(one, [asked("a", "x")]))
    assert batch.request_counts.completed == 1
    for forbidden in (
        lambda: two.batches.retrieve(batch.id),
        lambda: two.files.content(batch.output_file_id),
        lambda: two.batches.create(
            input_file_id=batch.input_file_id, endpoint=CHAT, completion_window="24h"
        ),
    ):
        with pytest.raises(openai.NotFoundError):
            forbidden()
    assert not two.files.list().data
    assert not two.batches.list().data
    server.close()


def test_a_batch_that_ends_its_server_each_time_is_given_up(serve):
    first = serve(pause=0.05)
    batch = begun(client_of(first), [asked("a", "word " * 50)])
    until(lambda: first.model.forwards > 1)
    first.close()
    folder = first.policy.batch_dir / "batches"
    record = json.loads((folder / f"{batch.id}.json").read_text())
    assert record["starts"] == 1
    record["starts"] = 3
    (folder / f"{batch.id}.json").write_text(json.dumps(record))
    done = ended(client_of(serve()), batch)
    assert (done.status, done.errors.data[0].code) == ("failed", "batch_failed")
    assert "3 times" in done.errors.data[0].message
