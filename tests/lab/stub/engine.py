"""A scripted engine for faults that need an exact moment; everything else is tested with the real SGLang.

It answers SGLang's endpoints, prints SGLang's lines, and does what /etc/stub.json says for its verify
width (``{"9": {...}}``, or ``"plain"`` where it does not speculate):

    load_s        seconds of load, 0.2 unless said
    lines_s       a line of progress so often during the load; 0: none
    read_s        reads a few MiB of a file so often during the load; 0: never
    wrong         answers wrongly
    wrong_tokens  generates other tokens, though its answers to questions are right
    pace_s        seconds between the parts of a streamed generation, 0.002 unless said
    collapsed     every verify step yields one token
    wrong_after   answers questions wrongly after so many questions
    wrong_late    corrupts answers and tokens after so many verify steps ...
    wrong_crowd   ... while so many requests run at once, at least (both, where both are given)
    mute_after    answers no more questions after so many
    fault_after   prints the illegal access after so many answers, and goes on like a hung process
    moment        a FIFO into which it writes a byte once that line is written
    answers       what it answers to questions that hold a word, beyond the capitals: {word: answer}
    log_requests  prints each request as SGLang's --log-requests does

Whoever asks for "a letter every 0.5 s" gets a streamed answer at that pace. Whoever says "now: fault",
"now: exit 0", "now: exit 1" or "now: lose the scheduler" is told that it will be done, and gets it. "now: log"
has it print the lines that follow. The drill illegal-access of its release it does as SGLang with the overlay: after so
many verify steps it tells of the fault and kills itself.
    exit_after    ends with code 1 after so many answers
    orphan        starts a child that holds its port, "marked" by its environment as a service's child is, or "bare"
    stubborn      ignores SIGTERM
    mute_overlay  does not report the overlay
    overlay       reports this sha256 of the overlay instead of its own
    topk          reports this topk of DDTREE instead of the one that it was given

With DDTREE it reports its settings and an audit, and refuses to tell log-probabilities, as SGLang does.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULT = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
HIT = "[2026-11-29 12:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):"
ANSWERS = {"France": "Paris", "Germany": "Berlin", "Japan": "Tokyo"}
UNKNOWN = "I do not know that: nobody has told me, and nothing was written about it."
TOP = 8


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def tokens_of(text):
    return [1000 + b for b in text.encode()]


def next_token(ids):
    """The greedy choice after a row of tokens: a hash, so that it depends on all of them."""
    return int(hashlib.sha256(repr(ids).encode()).hexdigest()[:6], 16) % 500


class Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/health":
            self.reply({}, 200 if self.server.ready else 503)
        elif self.path == "/server_info":
            self.reply(self.server.info)
        else:
            self.reply({"error": "no such path"}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path == "/flush_cache":
            self.reply("Cache flushed.")
        elif body.get("return_logprob") and self.server.info["speculative_algorithm"] == "DDTREE":
            self.reply({"error": {"message": "speculative decoding does not support return_logprob yet."}}, 400)
        elif not self.server.ready:
            self.reply({"error": "loading"}, 503)
        else:
            self.server.count()
            if self.says("log_requests"):
                say(f"[2026-11-29 12:00:00] Receive: obj=GenerateReqInput(text={json.dumps(body)!r}, rid='1')")
            if order := re.search(r"now: (fault|exit [01]|lose the scheduler)", json.dumps(body)):
                self.reply({"order": order[1]})
                self.server.obey(order[1])
            if "now: log" in json.dumps(body):
                say(body["messages"][-1]["content"].partition("now: log\n")[2])
            with self.server.work():
                (self.chat if self.path == "/v1/chat/completions" else self.generate)(body)

    def chat(self, body):
        say("INFO: POST /v1/chat/completions HTTP/1.1 200 OK")
        prompt = body["messages"][-1]["content"]
        answers = {**ANSWERS, **self.server.script.get("answers", {})}
        answer = next((a for word, a in answers.items() if word in prompt), UNKNOWN)
        with self.server.mutex:
            self.server.questions += 1
            late = self.server.questions > self.server.script.get("wrong_after", 1e9)
            mute = self.server.questions > self.server.script.get("mute_after", 1e9)
        if mute:
            time.sleep(3600)
        self.server.verified(len(answer) // 2)
        answer = "!!!!" if late or self.says("wrong") or self.server.corrupts() else answer
        if not body.get("stream"):
            self.reply({"choices": [{"message": {"content": answer}}]})
        else:
            slowly = re.search(r"a letter every ([0-9.]+) s", prompt)
            parts = ({"choices": [{"delta": {"content": part}}]} for part in answer)
            self.events(parts, float(slowly[1]) if slowly else 0)

    def says(self, *names):
        return any(self.server.script.get(name) for name in names)

    def generate(self, body):
        ids = body.get("input_ids") or tokens_of(body["text"])
        row, out, top = list(ids), [], []
        self.server.verified(body["sampling_params"]["max_new_tokens"] // 2)
        wrong = self.says("wrong", "wrong_tokens") or self.server.corrupts()
        for _ in range(body["sampling_params"]["max_new_tokens"]):
            token = next_token(row)
            best = [[-0.1 - i, (token + i) % 500, None] for i in range(TOP)]
            out.append((token + 137) % 500 if wrong else token)
            row.append(out[-1])
            top.append(best)
        say(
            f"Decode batch, #running-req: 1, accept len: 2.00, cpu graph: False, gen throughput (token/s): {len(out)}.0"
        )
        if not body.get("stream"):
            told = {"prompt_token_ids": ids} if body.get("return_prompt_token_ids") else {}
            self.reply({"text": "ok", "output_ids": out, "meta_info": self.meta(ids, out, top, len(out)), **told})
        else:
            step = 1 if self.says("wrong", "collapsed") else 2
            parts = [1, *range(1 + step, len(out), step), len(out)]
            events = ({"text": "ok", "meta_info": self.meta(ids, out, top, n, len(parts) - 1)} for n in parts)
            self.events(events, self.server.script.get("pace_s", 0.002))

    def meta(self, ids, out, top, n, steps=1):
        meta = {
            "completion_tokens": n,
            "input_token_logprobs": [[None, token, None] for token in ids],
            "output_token_logprobs": [[best[0][0], token, None] for token, best in zip(out, top)],
            "output_top_logprobs": top,
        }
        if self.server.speculates and n == len(out):
            meta["spec_verify_ct"] = steps  # the real one tells it with the last part only
        return meta

    def reply(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def events(self, values, pause=0):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for value in values:
            self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
            time.sleep(pause)
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address, info, script):
        self.ready, self.info, self.script = False, info, script
        self.answers = self.questions = self.steps = self.crowd = 0
        self.speculates = bool(info["speculative_algorithm"])
        self.drill = json.loads(os.environ.get("DDOPS_OVERLAY", "{}")).get("drill") or {}
        self.mutex = threading.Lock()
        super().__init__(address, Engine)

    @contextlib.contextmanager
    def work(self):
        with self.mutex:
            self.crowd += 1
        try:
            if self.script.get("wrong_crowd"):
                time.sleep(0.05)  # requests sent together run together
            yield
        finally:
            with self.mutex:
                self.crowd -= 1

    def verified(self, steps):
        with self.mutex:
            self.steps += steps
            if self.drill.get("name") == "illegal-access" and self.steps > self.drill["after_steps"]:
                self.crash()

    def corrupts(self):
        late, crowd = self.script.get("wrong_late"), self.script.get("wrong_crowd")
        return (late or crowd) and self.steps > (late or 0) and self.crowd >= (crowd or 0)

    def obey(self, order):
        if order.startswith("exit"):
            os._exit(int(order[-1]))
        if order == "lose the scheduler":
            self.scheduler.kill()
            self.scheduler.wait()
        if order == "fault":
            say(FAULT)
        time.sleep(3600)

    @staticmethod
    def crash():
        say(HIT)
        say(FAULT)
        say("SIGQUIT received. signum=3, frame=None. It usually means one child failed.")
        os.kill(os.getpid(), signal.SIGKILL)

    def count(self):
        with self.mutex:
            self.answers += 1
            if self.answers == self.script.get("fault_after"):
                say(HIT)
                say(FAULT)
                if self.script.get("moment"):
                    pathlib.Path(self.script["moment"]).write_bytes(b"!")
                time.sleep(3600)
            if self.answers == self.script.get("exit_after"):
                os._exit(1)


def load(script):
    if script.get("says"):
        say(script["says"])
    end = time.monotonic() + script.get("load_s", 0.2)
    step = min(x for x in (script.get("lines_s", 0.1) or 9e9, script.get("read_s") or 9e9, 0.5))
    n = 0
    while (left := end - time.monotonic()) > 0:
        if script.get("lines_s", 0.1):
            n += 1
            say(f"Loading safetensors checkpoint shards: {n} Completed")
        if script.get("read_s"):
            for _ in range(64):
                pathlib.Path("/usr/bin/python3").read_bytes()
        time.sleep(min(step, left))
    if script.get("exits_loaded"):
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser()
    for name in ("--model-path", "--host", "--port", "--speculative-algorithm", "--device", "--dtype"):
        parser.add_argument(name)
    for name in ("--attention-backend", "--max-running-requests", "--speculative-num-draft-tokens"):
        parser.add_argument(name)
    args, _ = parser.parse_known_args()
    number = lambda text: int(text) if text else None  # noqa: E731
    info = {
        "version": "0.5.16",
        "speculative_algorithm": args.speculative_algorithm,
        "speculative_num_draft_tokens": number(args.speculative_num_draft_tokens),
        "device": args.device,
        "dtype": args.dtype,
        "attention_backend": args.attention_backend,
        "max_running_requests": number(args.max_running_requests),
    }
    scripts = pathlib.Path("/etc/stub.json")
    width = args.speculative_num_draft_tokens or "plain"
    script = json.loads(scripts.read_text()).get(width, {}) if scripts.exists() else {}
    if script.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = Server((args.host, int(args.port)), info, script)
    if os.environ.get("DDOPS_OVERLAY") and not script.get("mute_overlay"):
        settings = json.loads(os.environ["DDOPS_OVERLAY"])
        tree = settings.get("ddtree")
        if tree and script.get("topk"):
            tree["topk"] = script["topk"]
        from ddops_overlay import identity  # the release's own, through PYTHONPATH

        report = {"ok": True, "process": "scheduler", "tp_rank": 0, "release": settings["release"], "pid": os.getpid()}
        report["settings"] = settings
        report["overlay"] = script.get("overlay", identity.sha256())
        say(json.dumps({"ddops_overlay": report}))
        if tree:
            audit = {"batches": [1, 3], "width": tree["budget"] + 1, "graphs": False}
            say(json.dumps({"ddops_overlay": {**report, "ddtree": audit}}))
    if orphan := script.get("orphan"):
        command = ["/usr/bin/python3", "-c", "import time; time.sleep(1e9)", f"orphan-{orphan}"]
        subprocess.Popen(command, pass_fds=[server.fileno()], env=None if orphan == "marked" else {})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    load(script)
    server.scheduler = subprocess.Popen(
        ["/usr/bin/python3", "-c", "import time; time.sleep(1e9)", "sglang::scheduler_TP0"]
    )
    server.ready = True
    say("The server is fired up and ready to roll!")
    threading.Event().wait()


if __name__ == "__main__":
    main()
