"""`polypath decide serve`: load the model once, then answer clients until interrupted."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from polypath.cli.extras import version
from polypath.cli.output import results_only, say
from polypath.core.errors import UserError, missing_extra


def serve(
    model: str,
    *,
    readout: str,
    length: str,
    calibration: str,
    host: str,
    port: int,
    token: str,
    aliases: Sequence[str],
    questions: int,
    waiting: int,
    body_bytes: int,
) -> None:
    """Serve until Ctrl-C. Raises UserError for an address that is taken, a missing extra or a foreign calibration."""
    for package in ("starlette", "uvicorn"):
        if version(package) is None:
            raise missing_extra("decide serve", package, "server")
    listening = listen(host, port)
    from polypath.core.environment import prepare_threads

    prepare_threads(None, None)
    import uvicorn

    from polypath.decide.calibrate import Calibration, identity_of, load_calibration
    from polypath.decide.server import Limits, serve_policy
    from polypath.engines.transformers import TransformersPolicy

    with results_only():
        policy = TransformersPolicy.load(model)
    fitted = load_calibration(calibration, identity_of(policy, readout, length)) if calibration else Calibration({})
    server = serve_policy(
        policy,
        readout=readout,
        length=length,
        temperature=fitted.temperature if calibration else lambda _: 1.0,
        token=token,
        aliases=aliases,
        limits=Limits(body_bytes, questions, waiting),
    )
    address, at = listening.getsockname()[:2]
    say(f"{policy.name} answers at http://{address}:{at}/v1/systemone and /v1/decisions. Ctrl-C ends it.")
    if not calibration:
        say("Its probabilities are not calibrated; fit a calibration and name it with --calibration.")
    if not token and address not in ("127.0.0.1", "::1"):
        say("Anybody who reaches this address may ask: set --token, or POLYPATH_TOKEN.")
    config = uvicorn.Config(server.app, log_level="warning", timeout_graceful_shutdown=5)
    uvicorn.Server(config).run(sockets=[listening])
    server.batcher.close()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises UserError where the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        raise UserError(
            "--port", f"{host}:{port} cannot be had ({error})", "Choose another --port or --host."
        ) from None
    return found
