"""``ddops bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import HostOption, JsonOption, ServiceOption, SiteOption, seconds


def command(
    host: HostOption = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="An SGLang server, instead of a host's.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Closed loop: streams at a time. [default: 1]")
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="R", help="Open loop: requests a second.")] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Requests of a run. [default: 8 per stream]")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Tokens of each answer.")] = 128,
    input_tokens: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Prompts of N random token ids, instead of texts.")
    ] = None,
    prompts: Annotated[Path | None, typer.Option(metavar="FILE", help="Texts to continue, one a line.")] = None,
    warmup: Annotated[int, typer.Option(min=0, metavar="N", help="Requests before each run that do not count.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, metavar="N", help="Runs.")] = 3,
    seed: Annotated[int | None, typer.Option(metavar="N", help="The same load again; else a new one.")] = None,
    flush_cache: Annotated[bool, typer.Option("--flush-cache", help="Empty the prefix cache before each run.")] = False,
    slo: Annotated[str, typer.Option(metavar="LIMITS", help="For goodput, in ms: ttft=500,itl=40,latency=9000.")] = "",
    timeout: Annotated[str, typer.Option(metavar="TIME", help="A request that takes longer has failed.")] = "10m",
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure a service under load; exit 11 if a request failed."""
    import random

    from ..bench import slo as limits
    from ..bench.gpus import Watcher
    from ..bench.load import Load
    from ..bench.measure import measure
    from ..exit_codes import ExitCode
    from . import output, reading, target
    from .benched import Bar, show, show_gpus

    if concurrency is None and rate is None:
        concurrency = 1
    more = {"prompts": reading.texts(prompts)} if prompts else {}
    load = Load(
        requests=requests or 8 * (concurrency or 4),
        tokens=tokens,
        concurrency=concurrency,
        rate=rate,
        input_tokens=input_tokens,
        warmup=warmup,
        seed=random.randrange(10**6) if seed is None else seed,  # noqa: S311 - a load, no secret
        flush=flush_cache,
        timeout=seconds("--timeout", timeout),
        **more,
    )
    wanted = limits.parse(slo)
    server, connect = target.server(url, host, site, service)
    with Watcher(connect) as gpus:
        found = measure(server, load, wanted, repeats, Bar(load.requests, repeats))
    code = ExitCode.NOT_PASSED if found.failed else ExitCode.OK
    if as_json:
        output.document(found.as_json(server, load, wanted) | {"gpus": gpus.found(), "exit_code": int(code)})
    else:
        show(found, load, server)
        show_gpus(gpus.found())
    return int(code)
