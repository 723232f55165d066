"""A server that W&B's own client takes for W&B's: it keeps the rows that it is sent.

with WandbServer() as server:
    …                              # WANDB_BASE_URL=server.url, WANDB_API_KEY=KEY
    server.rows["9f2c"]            # the history of a run, as W&B would have it
"""

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "a" * 40


class WandbServer:
    """Runs by id, each a list of rows."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.exit_codes: dict[str, int] = {}
        handler = type("Handler", (_Handler,), {"wandb": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> "WandbServer":
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What leads W&B's client here."""
        return {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": KEY}

    def answer(self, operation: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The data of a GraphQL operation."""
        project = {"id": "p", "name": variables.get("project"), "entity": {"id": "e", "name": "someone"}}
        run = {
            "id": "r",
            "name": variables.get("name"),
            "displayName": variables.get("displayName"),
            "project": project,
        }
        if operation == "UpsertBucket":
            bucket = {**run, "description": None, "config": "{}", "sweepName": None, "historyLineCount": 0}
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if operation == "RunResumeStatus":
            return {"model": {**project, "bucket": self._known(str(variables["name"]))}}
        if operation == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.url}/put/{name}"} for name in variables["files"]]
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}
        return {}

    def _known(self, run: str) -> dict[str, Any] | None:
        rows = self.rows.get(run)
        if not rows:
            return None
        tails = {"historyTail": json.dumps([json.dumps(rows[-1])]), "eventsTail": "[]", "summaryMetrics": "{}"}
        lines = {"historyLineCount": len(rows), "logLineCount": 0, "eventsLineCount": 0}
        rest = {"displayName": run, "config": "{}", "tags": [], "notes": "", "wandbConfig": '{"t": 1}'}
        return {"id": "r", "name": run, **tails, **lines, **rest}

    def take(self, run: str, data: dict[str, Any]) -> None:
        """A request of the file stream: rows at an offset."""
        history = (data.get("files") or {}).get("wandb-history.jsonl")
        if history:
            self.rows.setdefault(run, [])[history["offset"] :] = [json.loads(line) for line in history["content"]]
        if data.get("complete"):
            self.exit_codes[run] = data["exitcode"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wandb: WandbServer

    def handle(self) -> None:
        """Answer requests until the client has gone."""
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        data = json.loads(self._body() or b"{}") if "json" in self.headers.get("Content-Type", "") else self._body()
        if self.path == "/graphql":
            self._reply({"data": self.wandb.answer(data.get("operationName") or "", data.get("variables") or {})})
        elif self.path.endswith("/file_stream"):
            self.wandb.take(self.path.split("/")[4], data)
            self._reply({"exitcode": None, "limits": {}})
        else:
            self._reply({}, 404)

    def do_PUT(self) -> None:
        self._body()
        self._reply({})

    do_GET = do_PUT

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _reply(self, value: Any, code: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
