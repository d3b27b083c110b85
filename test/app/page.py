"""The page of a running job: page.py LOG ROWS.csv. LOG has its address; ROWS is its -monitor csv."""
import csv, http.client, json, os, re, socket, sys, time, urllib.parse, xml.dom.minidom

LIMIT = int(os.environ.get("RENGA_TEST_LIMIT", "150"))


def wait(what, attempt):
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        found = attempt()
        if found:
            return found
        time.sleep(0.05)
    sys.exit(f"after {LIMIT} s: no {what}")


def address(log):
    def attempt():
        with open(log) as file:
            return re.search(r"the run can be watched at http://([^:/]+|\[.*?\]):(\d+)(/\S*)(?: with the token that was given)?\n", file.read())
    host, port, path = wait("address", attempt).groups()
    return ("127.0.0.1" if host not in ("localhost", "127.0.0.1") else host), int(port), path


def ask(host, port, path, method="GET", headers=None):
    connection = http.client.HTTPConnection(host, port, timeout=LIMIT)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def raw(host, port, data, reads=True):
    client = socket.create_connection((host, port), timeout=LIMIT)
    client.sendall(data)
    if not reads:
        return client
    text = b""
    while True:
        try:
            got = client.recv(65536)
        except ConnectionResetError:
            got = b""
        if not got:
            return text
        text += got


def check_page(host, port):
    status, headers, body = ask(host, port, "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html"), (status, headers)
    text = body.decode()
    assert text.startswith("<!DOCTYPE html>") and text.rstrip().endswith("</html>")
    assert set(re.findall(r"https?://[^'\"\s]*", text)) <= {"http://www.w3.org/2000/svg"}, "the page names other places"
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=", text), "the page loads other files"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert ask(host, port, "/", "HEAD")[2] == b""


def check_state(host, port, rows):
    def attempt():
        status, headers, body = ask(host, port, "/state.json")
        assert status == 200 and headers["Content-Type"] == "application/json"
        state = json.loads(body, parse_float=str)
        ready = len(state["rows"]["step"]) > 20 and state["validations"]["step"] and all("step" in r for r in state["ranks"])
        return state if ready and state["ranks"] and any(r["bars"] for r in state["ranks"]) else None
    state = wait("state with steps, validations and reports of all ranks", attempt)
    with open(rows) as file:
        table = {int(row["step"]): row for row in csv.DictReader(file) if row["perplexity"] is not None}
    for name in ("loss", "learning_rate", "gradient_norm"):
        for step, value in zip(state["rows"]["step"], state["rows"][name]):
            assert str(value) == table[step][name], f"step {step}: {name} {value}, row {table[step][name]}"
    for name in ("samples_per_second", "seconds"):  # of which rows have fewer digits
        for step, value in zip(state["rows"]["step"], state["rows"][name]):
            assert abs(float(value) - float(table[step][name])) <= 1e-5 * float(value), (step, name, value)
    last = state["last"]
    for name in ("loss", "learning_rate", "gradient_norm", "samples_per_second", "seconds"):
        assert str(last[name]) == table[last["step"]][name], (last, table[last["step"]])
    for step, value in zip(state["validations"]["step"], state["validations"]["loss"]):
        assert str(value) == table[step]["validation_loss"], (step, value, table[step])
    assert state["validations"]["accuracy"][0] is not None
    assert [r["rank"] for r in state["ranks"]] == list(range(len(state["ranks"])))
    for rank in state["ranks"]:
        parts = sum(value for name, value in rank["memory"].items() if name != "forecast")
        assert 0 < parts <= rank["memory"]["forecast"], rank["memory"]
        assert rank["place"].startswith("stage") and rank["step"] <= last["step"] + 100000, rank
        assert all(float(bar[0]) <= float(bar[1]) for bar in rank["bars"])
    print(f"{len(state['rows']['step'])} points, {len(state['ranks'])} ranks, stride {state['rows']['stride']}, network {state['network']}")


def check_refusals(host, port):
    assert ask(host, port, "/nothing")[0] == 404
    assert ask(host, port, "/state.json/../../etc/passwd")[0] == 404
    assert ask(host, port, "/", "POST")[0] == 405
    assert ask(host, port, "/", headers={"Host": "elsewhere.example"})[0] == 403
    assert ask(host, port, "/", headers={"Host": "localhost.elsewhere.example"})[0] == 403
    for elsewhere in ("127.elsewhere.example", "127.0.0.1.elsewhere.example", "128.0.0.1", "[::2]:80"):
        assert ask(host, port, "/", headers={"Host": elsewhere})[0] == 403, elsewhere
    for own in ("127.1.2.3:80", "[::1]", "[::1]:80", "LOCALHOST"):
        assert ask(host, port, "/", headers={"Host": own})[0] == 200, own
    assert raw(host, port, b"\x16\x03\x01\x02\x00 nothing of HTTP\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert raw(host, port, b"GET / HTTP/1.1\0\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert raw(host, port, b"GET /" + b"a" * 4091).startswith(b"HTTP/1.1 431")
    assert raw(host, port, b"GET /" + b"a" * 300 + b" HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400")


def step_of(host, port):
    return json.loads(ask(host, port, "/state.json")[2])["last"]["step"]


def check_bad_clients(host, port):
    """Clients that never read, that never ask and that go away: training goes on, and others are answered."""
    before = step_of(host, port)
    clients = [raw(host, port, b"GET /state.json HTTP/1.1\r\nHost: localhost\r\n\r\n", False) for _ in range(12)]
    clients += [raw(host, port, b"GET /sta", False) for _ in range(40)]
    for client in clients[::2]:
        client.close()
    wait("step while clients wait", lambda: step_of(host, port) > before)
    for client in clients:
        client.close()


def check_token(host, port, path):
    token = urllib.parse.parse_qs(urllib.parse.urlparse(path).query)["token"][0]
    for target, headers in (("/", {}), ("/state.json", {}), ("/?token=", {}), (f"/?token={token}x", {}), (f"/?token={token[:-1]}", {}),
                            (f"/?nottoken={token}", {}), ("/", {"Authorization": "Bearer " + token[::-1] + "x"}), ("/nothing", {})):
        assert ask(host, port, target, headers=headers)[0] == 403, (target, headers)
    assert ask(host, port, path)[0] == 200
    assert ask(host, port, f"/state.json?a=b&token={token}", headers={"Host": "any.example"})[0] == 200
    assert ask(host, port, "/state.json", headers={"Authorization": "Bearer " + token})[0] == 200
    print("token of", len(token))


def gone(host, port):
    try:
        socket.create_connection((host, port), timeout=LIMIT).close()
    except ConnectionRefusedError:
        return True
    return False


what, log = sys.argv[1:3]
host, port, path = address(log)
if what == "port":
    print(port)
elif what == "all":
    check_page(host, port)
    check_state(host, port, sys.argv[3])
    xml.dom.minidom.parseString(wait("picture of the plan", lambda: ask(host, port, "/plan.svg")[2]))
    check_refusals(host, port)
    check_bad_clients(host, port)
elif what == "token":
    check_token(host, port, f"/?token={sys.argv[3]}" if len(sys.argv) > 3 else path)
elif what == "gone":
    wait("end of the page", lambda: gone(host, port))
