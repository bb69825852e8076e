"""The upstreams `flask` and `django`: Flask on Werkzeug's server, Django on the standard library's `wsgiref`.

Prints one line, the ports by name, and serves until it is terminated.
"""

import io
import json
import os
import socketserver
import sqlite3
import threading
from collections.abc import Callable
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import django
import flask
import jsonpatch
import werkzeug.serving
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

ROUTES = os.environ["ROUTES"].split(" ")
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def card(document: object) -> list[object]:
    if not isinstance(document, dict):
        return []
    inner = document.get("card")
    number = inner.get("number") if isinstance(inner, dict) else None
    return [document.get("card_number"), number, document.get("secret_key")]


def attempt(read: Callable[[], object]) -> object:
    """None where the framework refuses the body."""
    try:
        return read()
    except Exception:  # noqa: BLE001
        return None


class First(dict):
    """The members of an object, the first of each name."""

    def __init__(self, pairs: list[tuple[str, object]]):
        super().__init__(reversed(pairs))


def of_kind(document: object) -> object:
    """The numbers of the payments by card."""
    return [payment.get("number") for payment in document["payments"] if payment.get("kind") == "card"]


def patched(body: bytes) -> object:
    """The card of a stored document that the body patches."""
    stored = {"card": {"number": None}, "card_number": None, "secret_key": None}
    return card(jsonpatch.JsonPatch(json.loads(body)).apply(stored))


def parsed(text: str) -> object:
    """The document that a text holds, also as a text of a text."""
    document = json.loads(text)
    return parsed(document) if isinstance(document, str) else document


def inside(body: bytes) -> dict[str, object]:
    """The findings of services that parse a member of a message: a text, or a patch."""
    stored = {"card": {"number": None}, "card_number": None, "secret_key": None}
    message = json.loads(body)
    return {
        "json text": attempt(lambda: card(parsed(message["payload"]))),
        "json member patch": attempt(lambda: card(jsonpatch.JsonPatch(message["patch"]).apply(stored))),
    }


def by_sqlite(body: bytes) -> dict[str, object]:
    """The values that SQLite's functions read, which take the first of equal members."""
    database = sqlite3.connect(":memory:")
    text = body.decode()
    paths = ["$.card_number", "$.card.number", "$.secret_key"]
    filtered = "select json_extract(value, '$.number') from json_each(?, '$.payments') where json_extract(value, '$.kind') = 'card'"
    # Of an object or list it returns the JSON text.
    return {
        "json json_extract": attempt(lambda: [plain(database.execute("select json_extract(?, ?)", (text, path)).fetchone()[0]) for path in paths]),
        "filter json_extract": attempt(lambda: [plain(row[0]) for row in database.execute(filtered, (text,))]),
    }


def plain(value: object) -> object:
    """The value of a JSON text; other text as it is."""
    return json.loads(value) if isinstance(value, str) and value.startswith(("{", "[")) else value


def documents(body: bytes) -> dict[str, object]:
    """The values that JSON parsers find in a body."""
    return {
        "json jsonpatch": attempt(lambda: patched(body)),
        "json first": attempt(lambda: card(json.loads(body, object_pairs_hook=First))),
        "filter last": attempt(lambda: of_kind(json.loads(body))),
        "filter first": attempt(lambda: of_kind(json.loads(body, object_pairs_hook=First))),
        **(attempt(lambda: by_sqlite(body)) or {}),
        **(attempt(lambda: inside(body)) or {}),
    }


def flask_app() -> flask.Flask:
    app = flask.Flask("upstream")

    def report() -> flask.Response:
        request = flask.request
        body = request.get_data()
        # A body can be read once: as JSON here, as a form by a second request of the same bytes.
        form = flask.Request({**request.environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})
        read = {
            "form request.form": form.form.getlist("card_number"),
            "form request.files": [file.read().decode("latin-1") for file in form.files.getlist("card_number")],
            "params request.values": form.values.getlist("card_number"),
            "json get_json(force)": card(attempt(lambda: request.get_json(force=True))),
            "json field": card(attempt(lambda: parsed(form.values["payload"]))),
            **documents(body),
            "query request.args": request.args.getlist("card_number"),
            "header request.headers": request.headers.get("X-Card-Number"),
            "header request.environ": request.environ.get("HTTP_X_CARD_NUMBER"),
        }
        answer = flask.jsonify(route=request.url_rule.rule, read=read)
        answer.headers["X-Upstream"] = "flask"
        return answer

    for route in ROUTES:
        app.add_url_rule(route, view_func=report, methods=METHODS, endpoint=route)
    return app


def django_report(request: HttpRequest) -> HttpResponse:
    body = attempt(lambda: request.body)
    read = {
        "form request.POST": attempt(lambda: request.POST.getlist("card_number")),
        "form request.FILES": attempt(lambda: [file.read().decode("latin-1") for file in request.FILES.getlist("card_number")]),
        "json json.loads": card(attempt(lambda: json.loads(body))),
        "json field": card(attempt(lambda: json.loads(request.POST["payload"]))),
        "json part": card(attempt(lambda: json.loads(request.FILES["payload"].read()))),
        "query request.GET": request.GET.getlist("card_number"),
        "header request.headers": request.headers.get("X-Card-Number"),
        "header request.META": request.META.get("HTTP_X_CARD_NUMBER"),
    }
    return JsonResponse({"route": request.path.rstrip("/"), "read": read}, headers={"X-Upstream": "django"})


urlpatterns = [path(route.removeprefix("/"), django_report) for route in ROUTES]


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


class Threaded(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


def serve_django() -> Threaded:
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="of the tests", USE_I18N=False, LOGGING_CONFIG=None)
    django.setup()
    server = Threaded(("127.0.0.1", 0), Quiet)
    server.set_app(WSGIHandler())
    return server


def serve_flask() -> werkzeug.serving.BaseWSGIServer:
    class Silent(werkzeug.serving.WSGIRequestHandler):
        def log(self, type: str, message: str, *arguments: object) -> None:
            pass

    return werkzeug.serving.make_server("127.0.0.1", 0, flask_app(), threaded=True, request_handler=Silent)


def main() -> None:
    servers = {"flask": serve_flask(), "django": serve_django()}
    threads = [threading.Thread(target=server.serve_forever) for server in servers.values()]
    for thread in threads:
        thread.start()
    print(json.dumps({name: server.server_address[1] for name, server in servers.items()}), flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
