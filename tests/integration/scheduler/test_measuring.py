"""The load of nodes, asked of an HTTP server that answers as Prometheus does."""

from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stromboli.scheduler.measuring import measure
from stromboli.scheduling.conf import MetricsConf
from stromboli.scheduling.loads import NodeLoad

Handler = Callable[[web.Request], Awaitable[web.Response]]


def vector(**loads: str) -> dict[str, object]:
    return {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [
                {"metric": {"instance": name}, "value": [1893456000, load]}
                for name, load in loads.items()
            ],
        },
    }


async def asked(answer: Handler) -> dict[str, NodeLoad]:
    app = web.Application()
    app.router.add_get("/api/v1/query", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        loads = await measure(MetricsConf(address=str(server.make_url("/"))))
        return dict(loads.of)


async def test_nodes_that_both_measurements_name_have_a_load():
    async def answer(request: web.Request) -> web.Response:
        if "cpu" in request.query["query"]:
            return web.json_response(vector(n0="0.25", n1="0.5", n2="NaN"))
        return web.json_response(vector(n0="0.75", n2="0.1"))

    assert await asked(answer) == {"n0": NodeLoad(0.25, 0.75)}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"data": {}}', b"<html>", b'{"data":{"result":[1]}}']
)
async def test_an_answer_that_makes_no_sense_is_refused(body: bytes):
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    with pytest.raises(ValueError, match="expected a vector"):
        await asked(answer)


async def test_a_server_in_trouble_is_no_measurement():
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=503)

    with pytest.raises(aiohttp.ClientError):
        await asked(answer)
