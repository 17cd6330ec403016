"""Responses that are kept, and requests that go on from them."""

from __future__ import annotations

import json
import os
import stat
from base64 import b64encode

import openai
import pytest
from openai.types.responses import Response, ResponseItemList

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.faults import Refused
from localspec.apps.server.openai.response_store import ResponseStore, StoredResponse
from localspec.apps.server.openai.responses_request import ResponsesRequest
from localspec.apps.server.openai.responses_routes import items_of
from localspec.apps.server.safety import Rules
from localspec.base.errors import UsageError
from tests.apps.server.scripted import Server
from tests.apps.server.test_responses import CALL, WEATHER, streamed


def client_of(server, key="any"):
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def client(server):
    server.replies["weather?"] = CALL
    with client_of(server) as made:
        yield made


def ask(client, given, **wishes):
    return client.responses.create(model="scripted", input=given, **wishes)


def test_a_conversation_goes_on_from_a_response(server, client):
    first = ask(client, "one", instructions="Be very kind to all of them.")
    second = ask(client, "two", previous_response_id=first.id)
    third = ask(client, [{"role": "user", "content": "three"}], previous_response_id=second.id)
    assert [each.output_text for each in (first, second, third)] == [
        f"You said: {word}" for word in ("one", "two", "three")
    ]
    assert (third.previous_response_id, third.store) == (second.id, True)
    whole = ["one", "You said: one", "two", "You said: two", "three"]
    roles = ["user", "assistant"] * 2 + ["user"]
    messages = [{"role": role, "content": text} for role, text in zip(roles, whole, strict=True)]
    assert ask(client, messages).usage.input_tokens == third.usage.input_tokens


def test_a_text_file_is_still_there_when_the_conversation_goes_on(client):
    data = b64encode("a file with words: äöü".encode()).decode()
    file = {"type": "input_file", "filename": "a.md", "file_data": data}
    question = {"role": "user", "content": [file, {"type": "input_text", "text": "one"}]}
    first = ask(client, [question])
    second = ask(client, "two", previous_response_id=first.id)
    assert second.output_text == "You said: two"
    again = [question, *first.output, {"role": "user", "content": "two"}]
    assert ask(client, again).usage.input_tokens == second.usage.input_tokens


def test_a_number_that_json_has_no_word_for_is_listed_as_null(server):
    body = '{"input": [{"role": "user", "content": "here", "mood": NaN}]}'
    sent = {"content": body, "headers": {"content-type": "application/json"}}
    id = server.client.post("/v1/responses", **sent).json()["id"]
    [item] = server.client.get(f"/v1/responses/{id}/input_items").json()["data"]
    assert item["mood"] is None


def test_instructions_are_not_carried_over(client):
    first = ask(client, "one", instructions="Be very kind to all of them.")
    second = ask(client, "two", previous_response_id=first.id)
    assert second.instructions is None
    assert (
        second.usage.input_tokens
        == ask(
            client,
            [{"role": "user", "content": "one"}, *first.output, {"content": "two", "role": "user"}],
        ).usage.input_tokens
    )


def test_the_second_turn_reads_only_what_is_new(client):
    first = ask(client, "a question that nobody else asks here")
    second = ask(client, "two", previous_response_id=first.id)
    held = (
        first.usage.input_tokens + first.usage.output_tokens - 1
    )  # but for the token that ends it
    assert second.usage.input_tokens_details.cached_tokens >= held


def test_a_stream_is_kept_before_it_ends(client):
    events = iter(streamed(client, "one"))
    event = next(event for event in events if event.type == "response.completed")
    assert ask(client, "two", previous_response_id=event.response.id).output_text
    assert client.responses.retrieve(event.response.id) == event.response


def test_a_result_of_a_tool_is_sent_alone(client):
    first = ask(client, "weather?", tools=[WEATHER])
    result = {
        "type": "function_call_output",
        "call_id": first.output[0].call_id,
        "output": "It rains.",
    }
    reply = ask(client, [result], previous_response_id=first.id, tools=[WEATHER])
    assert reply.output_text == "You said: It rains."
    listed = list(client.responses.input_items.list(reply.id, order="asc"))
    assert [item.type for item in listed] == ["message", "function_call", "function_call_output"]
    assert listed[1].call_id == listed[2].call_id


def test_a_response_is_retrieved_and_deleted(client):
    reply = ask(client, "one", metadata={"a": "b"})
    response = client.responses.retrieve(reply.id)
    Response.model_validate(response.model_dump(by_alias=True))
    assert response == reply
    with pytest.raises(openai.BadRequestError, match="complete"):
        client.responses.cancel(reply.id)
    client.responses.delete(reply.id)
    for lost in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        with pytest.raises(openai.NotFoundError, match=reply.id):
            lost(reply.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.input_items.list(reply.id)


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("most", [{"most": 6}, {"most_bytes": 6 * 1000}])
def test_one_owner_cannot_push_out_what_another_keeps(tmp_path, on_disk, most):
    cache = tmp_path if on_disk else None

    def id_of(number):
        return f"resp_{number:024x}"

    def keep(store, owner, number):
        output = [{"type": "message", "content": "x" * 850}]
        response = {"id": id_of(number), "output": output}
        store.add(StoredResponse(owner, None, [], response))

    store = ResponseStore(cache=cache, **most)
    keep(store, "a", 0)
    keep(store, "a", 1)
    if on_disk:
        store = ResponseStore(cache=cache, **most)
    for number in range(2, 40):
        keep(store, "b", number)
    assert store.get(id_of(0), "a")
    assert store.get(id_of(1), "a")
    kept = [number for number in range(2, 40) if store.get(id_of(number), "b")]
    assert kept == [36, 37, 38, 39]
    keep(store, "c", 40)
    assert store.get(id_of(40), "c")
    assert not store.get(id_of(36), "b")


def test_what_a_client_wants_forgotten_is_not_kept(client):
    reply = ask(client, "one", store=False)
    assert reply.store is False
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, "two", previous_response_id=reply.id)
    assert (caught.value.code, caught.value.param) == (
        "previous_response_not_found",
        "previous_response_id",
    )
    kept = ask(client, "one")
    assert ask(client, "two", previous_response_id=kept.id, store=False).output_text


def test_items_come_in_pages(server, client):
    items = [{"role": "user", "content": f"number {at}"} for at in range(5)]
    reply = ask(client, items)
    texts = [item.content[0].text for item in client.responses.input_items.list(reply.id, limit=2)]
    assert texts == [f"number {at}" for at in (4, 3, 2, 1, 0)]
    page = client.responses.input_items.list(reply.id, limit=2, order="asc")
    assert [item.content[0].text for item in page.data] == ["number 0", "number 1"]
    assert page.has_more
    address = f"/v1/responses/{reply.id}/input_items"
    body = server.client.get(address, params={"after": page.data[-1].id, "order": "asc"}).json()
    ResponseItemList.model_validate(body)
    assert [item["content"][0]["text"] for item in body["data"]] == [
        f"number {at}" for at in (2, 3, 4)
    ]
    assert not body["has_more"]
    for wish in ({"after": "msg_1"}, {"limit": 0}, {"limit": 101}, {"order": "random"}):
        assert server.client.get(address, params=wish).status_code == 400


def test_an_item_is_referred_to_by_its_identifier(client):
    """Libraries do that where a server keeps responses."""
    first = ask(client, "one")
    reference = {"type": "item_reference", "id": first.output[0].id}
    items = [{"role": "user", "content": "one"}, reference, {"role": "user", "content": "two"}]
    second = ask(client, "two", previous_response_id=first.id)
    assert ask(client, items).usage.input_tokens == second.usage.input_tokens
    for id in ("msg_1", first.output[0].id[:-1] + "7", f"msg_{'0' * 24}o0"):
        with pytest.raises(openai.NotFoundError, match="not found: send the item itself"):
            ask(client, [{"type": "item_reference", "id": id}])


def test_tokens_of_a_conversation_are_counted(client):
    first = ask(client, "one")
    second = ask(client, "two", previous_response_id=first.id)
    counted = client.responses.input_tokens.count(
        model="scripted", input="two", previous_response_id=first.id
    )
    assert counted.input_tokens == second.usage.input_tokens


@pytest.mark.parametrize(
    "id", ["resp_1", "../../etc/passwd", "resp_" + "0" * 24, "x" * 5000, "resp_%2e%2e", "\ud800"]
)
def test_an_identifier_of_nothing_is_not_found(server, id):
    body = json.dumps({"input": "x", "previous_response_id": id})
    answer = server.client.post("/v1/responses", content=body).json()["error"]
    assert answer["code"] == "previous_response_not_found"
    assert len(answer["message"]) < 300
    if id.isascii():
        assert server.client.get(f"/v1/responses/{id}").status_code == 404


@pytest.fixture(scope="module")
def shared():
    """A server with the keys of two people."""
    made = Server(policy=ServerPolicy(Rules(keys=("first-key", "other-key"))))
    yield made
    made.close()


def test_others_do_not_see_a_response(shared):
    with client_of(shared, "first-key") as mine, client_of(shared, "other-key") as other:
        reply = ask(mine, "a secret")
        for lost in (
            other.responses.retrieve,
            other.responses.delete,
            other.responses.cancel,
            other.responses.input_items.list,
        ):
            with pytest.raises(openai.NotFoundError):
                lost(reply.id)
        with pytest.raises(openai.BadRequestError, match="not found"):
            ask(other, "and?", previous_response_id=reply.id)
        with pytest.raises(openai.NotFoundError):
            ask(other, [{"type": "item_reference", "id": reply.output[0].id}])
        assert mine.responses.retrieve(reply.id) == reply


def test_a_server_may_keep_nothing():
    server = Server(policy=ServerPolicy(responses=0))
    try:
        with client_of(server) as client:
            reply = ask(client, "one")
            assert reply.store is False
            with pytest.raises(openai.BadRequestError, match="--response-store"):
                ask(client, "two", previous_response_id=reply.id)
    finally:
        server.close()


def test_what_is_on_disk_is_there_after_a_restart(tmp_path):
    policy = ServerPolicy(cache_dir=tmp_path / "cache")
    ids = []
    for _ in range(2):
        server = Server(policy=policy)
        try:
            with client_of(server) as client:
                earlier = ids[-1] if ids else None
                ids.append(ask(client, "größe?", previous_response_id=earlier).id)
                assert len(list(client.responses.input_items.list(ids[-1]))) == 2 * len(ids) - 1
        finally:
            server.close()
    files = sorted((tmp_path / "cache" / "responses").iterdir())
    assert [path.stem for path in files] == sorted(ids)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def stored(number, owner="", previous=None, text="x"):
    item = {"type": "message", "id": f"msg_{number}", "role": "user", "content": text}
    return StoredResponse(owner, previous, [item], {"id": name(number), "output": []})


def name(number):
    return f"resp_{number:024x}"


@pytest.fixture(params=["memory", "disk"])
def place(request, tmp_path):
    return tmp_path if request.param == "disk" else None


def test_the_longest_unused_goes_first(place):
    store = ResponseStore(3, place)
    for number in range(3):
        store.add(stored(number, previous=name(number - 1) if number else None))
    assert store.get(name(0), "")
    store.add(stored(3))
    assert [number for number in range(4) if store.get(name(number), "")] == [0, 2, 3]
    assert store.chain(name(2), "") == []  # what it goes on from has gone
    assert len(store.chain(name(3), "")) == 1


def test_of_a_conversation_the_newest_stays_longest(place):
    store = ResponseStore(3, place)
    for number in range(3):
        store.add(stored(number, previous=name(number - 1) if number else None))
    assert [each.response["id"] for each in store.chain(name(2), "")] == list(map(name, range(3)))
    store.add(stored(3))
    assert [number for number in range(4) if store.get(name(number), "")] == [1, 2, 3]


def test_bytes_are_bounded_too(place):
    store = ResponseStore(100, place, most_bytes=1150)
    for number in range(10):
        store.add(stored(number, text="x" * 200))
    assert [number for number in range(10) if store.get(name(number), "")] == [7, 8, 9]
    store.add(stored(10, text="x" * 2000))
    assert store.get(name(10), "") is None
    assert store.get(name(9), "")


def test_what_was_used_last_outlives_a_restart(tmp_path):
    store = ResponseStore(3, tmp_path)
    for number in range(3):
        store.add(stored(number))
        os.utime(tmp_path / "responses" / f"{name(number)}.json", (number, number))
    assert store.get(name(0), "")
    again = ResponseStore(2, tmp_path)
    assert [number for number in range(3) if again.get(name(number), "")] == [0, 2]
    assert len(list((tmp_path / "responses").iterdir())) == 2


def test_items_of_another_version_are_as_good_as_none(tmp_path):
    store = ResponseStore(9, tmp_path)
    store.add(stored(1))
    body = ResponsesRequest(input="x", previous_response_id=name(1))
    assert len(items_of(body, store, "")) == 2
    path = tmp_path / "responses" / f"{name(1)}.json"
    path.write_text(path.read_text().replace('"user"', "7"))
    with pytest.raises(Refused, match="not found"):
        items_of(body, store, "")


def test_a_damaged_file_is_as_good_as_none(tmp_path):
    store = ResponseStore(9, tmp_path)
    contents = [b"", b"{", b"[]", b"\xff", b'{"owner": ""}', None]
    loops = {"owner": "", "previous": name(6), "input": [], "response": {"output": []}}
    strange = [loops, loops | {"previous": [1]}, loops | {"input": [1]}, loops | {"response": 1}]
    contents += [json.dumps(each).encode() for each in strange]
    for number, data in enumerate(contents[:9]):
        store.add(stored(number))
        path = tmp_path / "responses" / f"{name(number)}.json"
        path.unlink() if data is None else path.write_bytes(data)
    for number in range(9):
        assert store.chain(name(number), "") == []
    (tmp_path / "responses" / "resp_x.json").write_text("not ours")
    again = ResponseStore(1, tmp_path)
    again.add(stored(20))
    assert again.get(name(20), "")
    assert (tmp_path / "responses" / "resp_x.json").exists()


def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    (tmp_path / "responses").mkdir(mode=0o777)
    (tmp_path / "responses").chmod(0o777)
    with pytest.raises(UsageError, match="others can write to"):
        ResponseStore(1, tmp_path)
