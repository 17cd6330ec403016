"""Which API a path belongs to, and the errors that it brings."""

import pytest

from localspec.apps.server.api import Api, error_body
from localspec.apps.server.faults import Fault

FAULT = Fault(404, "gone", "model", "model_not_found")
KIND = "not_found_error"
OPENAI = {"error": {"message": "gone", "type": KIND, "param": "model", "code": "model_not_found"}}
ANTHROPIC = {"type": "error", "error": {"type": KIND, "message": "gone"}}


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/v1/chat/completions", OPENAI),
        ("/v1/nowhere", OPENAI),
        ("/v1/messages", ANTHROPIC),
        ("/v1/messages/batches/1", ANTHROPIC),
        ("/api/chat", {"error": "gone"}),
        ("/api/v1/chat/completions", OPENAI),
        ("/props", OPENAI),
        ("/", OPENAI),
        ("*", OPENAI),
    ],
)
def test_an_error_has_the_format_of_the_api_whose_path_it_is(server, path, error):
    assert error_body(server.app.state.apis, path, FAULT) == error


def test_llama_cpp_gives_the_status_where_there_is_no_code(server):
    assert error_body(server.app.state.apis, "/props", Fault(404, "gone")) == {
        "error": {"message": "gone", "type": KIND, "param": None, "code": 404}
    }


def test_an_api_that_is_added_brings_its_own_errors(server):
    own = server.app.state.apis
    added = Api(lambda handler: [], ("/api/v2/",), lambda fault: {"fault": fault.message})
    assert error_body([*own, added], "/api/v2/talk", FAULT) == {"fault": "gone"}
    assert error_body([added, *own], "/api/chat", FAULT) == {"error": "gone"}
