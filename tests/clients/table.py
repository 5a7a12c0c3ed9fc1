"""Every program whose ways through a sandbox are tried by `make clients`, with what its project holds."""

from __future__ import annotations

import platform

from tests.clients.servers import GROUP, MODULE, MODULE_VERSION, PYTHON, go_sum, names_of
from tests.clients.sums import verifier
from tests.e2e.clients import PACKAGES as OF_CLIENTS
from tests.e2e.programs import NPMRC, OPENED, PROGRAMS, WORKS, Program, manifest_of, npm_ci, uv_in

CRATES = tuple(f"many-{number}" for number in range(200))
RUST = f'pub const SAID: &str = "{WORKS}";\n'
GO = f'package greeting\n\nconst Said = "{WORKS}"\n'

PACKAGES = f"{OF_CLIENTS},python3-grpcio,cargo,golang-go,golang-google-grpc-dev,maven,default-jdk-headless,chromium,libnss3-tools"
"""What `--install` adds for all of them."""
_ARCH = "arm64" if platform.machine() == "aarch64" else "x64"
_PNPM = f"@pnpm/exe.linux-{_ARCH}"
_NODE = f"node-linux-{_ARCH}"
_BUN = f"@oven/bun-linux-{'aarch64' if _ARCH == 'arm64' else _ARCH}"
TARBALLS = ("pnpm", _PNPM, "yarn", f"{_NODE}@20", f"{_NODE}@24", _BUN)
"""Of npm's registry, in the laboratory's own."""

PAGE = "https://$SITE/"
_SAME = 'grep -qx "hello from $SITE" said && echo works'


def _python(module: str, fetch: str) -> Program:
    """A client in Python: lines that get the page at `url` as `text`."""
    text = f'import os\nurl = f"https://{{os.environ[\'SITE\']}}/"\n{fetch}\nprint(text, end="")\n'
    version = (
        f"python3 -c 'import {module}; print({module}.__version__)'"
        if module
        else "python3 --version | cut -d ' ' -f 2"
    )
    return Program(script=f"python3 fetch.py >said; {_SAME}", files={"fetch.py": text}, version=version)


_FETCH = "const url = `https://${process.env.SITE}/`; fetch(url).then(a => a.text()).then(t => process.stdout.write(t))"
_TOLD_TO = "NODE_USE_ENV_PROXY=1 "


def _package(package: str, program: str, name: str, version: str = "") -> str:
    """How a program of a package of npm's comes to the tools' PATH, under this name."""
    wanted = f"{package}@{version}" if version else package
    return (
        f"npm install --silent --prefix $TOOLS/{name} --registry https://$SITE/files/npm/ {wanted}; "
        f"ln -s ../{name}/node_modules/{package}/{program} $TOOLS/bin/{name}"
    )


def _fetch(node: str, before: str = "", prepare: str = "") -> Program:
    """The fetch of a Node of this name."""
    return Program(
        script=f'{before}{node} -e "$(cat fetch.js)" >said; {_SAME}',
        files={"fetch.js": _FETCH},
        prepare=prepare,
        version=f"{node} --version",
    )


def _node(version: str, before: str = "") -> Program:
    """That of another version than the image's."""
    name = f"{'told' if before else 'node'}{version}"
    return _fetch(name, before, _package(_NODE, "bin/node", name, version))


_WEBSOCKET = """
const socket = new WebSocket(`wss://${process.env.SITE}/ws/any`);
socket.onopen = () => socket.send('works');
socket.onmessage = (message) => { console.log(message.data); socket.close(); };
socket.onerror = (event) => { console.error(event.error?.cause ?? event.error ?? event.message); process.exitCode = 1; };
"""
_JAVA = """
import java.io.*;
import java.net.*;
import java.net.http.*;
public class Fetch {
    static void same(String said, String wanted) {
        if (!said.strip().equals(wanted)) throw new RuntimeException(said);
    }
    static String old(String url) throws Exception {
        try (InputStream body = new URL(url).openConnection().getInputStream()) { return new String(body.readAllBytes()); }
    }
    static String current(String url) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
    }
    public static void main(String[] arguments) throws Exception {
        for (String address : new String[] {"127.0.0.1", "::1"}) {
            var server = com.sun.net.httpserver.HttpServer.create(new InetSocketAddress(address, 0), 0);
            server.createContext("/", exchange -> {
                exchange.sendResponseHeaders(200, 5);
                exchange.getResponseBody().write("local".getBytes());
                exchange.close();
            });
            server.start();
            String host = address.contains(":") ? "[::1]" : "localhost";
            String url = "http://" + host + ":" + server.getAddress().getPort() + "/";
            same(old(url), "local");
            same(current(url), "local");
            server.stop(0);
        }
        String site = System.getenv("SITE");
        same(old("https://" + site + "/"), "hello from " + site);
        same(current("https://" + site + "/"), "hello from " + site);
        System.out.println("works");
    }
}
"""
_GO_CLIENT = """
package main

import ("fmt"; "io"; "net/http"; "os")

func main() {
	answer, err := http.Get("https://" + os.Getenv("SITE") + "/")
	if err != nil { fmt.Println(err); os.Exit(1) }
	text, _ := io.ReadAll(answer.Body)
	if string(text) != "hello from " + os.Getenv("SITE") + "\\n" { fmt.Println(string(text)); os.Exit(1) }
	fmt.Println("works")
}
"""
_GO_MAIN = f'package main\n\nimport (\n\t"fmt"\n\t"{MODULE}"\n)\n\nfunc main() {{ fmt.Println(greeting.Said) }}\n'
_GO_RUN = "GOCACHE=$TOOLS/go-cache go run ."
_GO_ENV = "GOPROXY=https://$SITE/files/go\n"
_GO_MOD = "module web\n\ngo 1.21\n"
_GO_VERSION = "go version | cut -d ' ' -f 3"
_MAVEN = f"""
<project>
  <modelVersion>4.0.0</modelVersion>
  <parent><groupId>{GROUP}</groupId><artifactId>parent</artifactId><version>1.0</version><relativePath/></parent>
  <artifactId>web</artifactId><packaging>pom</packaging>
  REPOSITORIES
  <build><plugins><plugin>
    <groupId>{GROUP}</groupId><artifactId>greeting-maven-plugin</artifactId><version>1.0</version>
    <executions><execution><phase>verify</phase><goals><goal>greet</goal></goals></execution></executions>
  </plugin></plugins></build>
</project>
"""
_URL = "<id>central</id><url>https://$SITE/files/maven</url>"
_REPOSITORIES = (
    f"<repositories><repository>{_URL}</repository></repositories>"
    f"<pluginRepositories><pluginRepository>{_URL}</pluginRepository></pluginRepositories>"
)
_SETTINGS = "<settings><mirrors><mirror><id>ours</id><mirrorOf>*</mirrorOf><url>https://$SITE/files/maven</url></mirror></mirrors></settings>"
# The JVM's home is that of the account, whatever HOME says.
_VERIFY = "mvn -B -q verify >said 2>&1 || { cat said; exit 1; }; grep -q 'works$' said"
GREET = """
import org.apache.maven.plugin.AbstractMojo;
public class Greet extends AbstractMojo { public void execute() { System.out.println("works"); } }
"""
"""The plugin's source."""

_GRPC = """
import grpc, os
channel = grpc.secure_channel(f"grpc.{os.environ['SITE']}:443", grpc.ssl_channel_credentials())
print(channel.unary_unary("/Echo/Say")(b"works", timeout=20).decode())
"""
ECHO = """
import concurrent.futures, grpc, sys
handler = grpc.method_handlers_generic_handler("Echo", {"Say": grpc.unary_unary_rpc_method_handler(lambda said, _: said)})
server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((handler,))
pair = [open(path, "rb").read() for path in sys.argv[2:4]]
assert server.add_secure_port(f"0.0.0.0:{sys.argv[1]}", grpc.ssl_server_credentials([tuple(pair)]))
server.start()
print("ready", flush=True)
server.wait_for_termination()
"""
"""The server: port, key, certificate."""

# Go's module of gRPC, as the distribution has it; what is said is bytes, as to the server.
_GO_GRPC = """
package main

import ("context"; "fmt"; "os"; "time"; "google.golang.org/grpc"; "google.golang.org/grpc/credentials")

type bare struct{}

func (bare) Name() string { return "bare" }
func (bare) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }
func (bare) Unmarshal(data []byte, value any) error { *value.(*[]byte) = data; return nil }

func main() {
	over := grpc.WithTransportCredentials(credentials.NewTLS(nil))
	channel, err := grpc.NewClient("grpc." + os.Getenv("SITE") + ":443", over)
	if err != nil { fmt.Println(err); os.Exit(1) }
	limited, _ := context.WithTimeout(context.Background(), 20 * time.Second)
	said, heard := []byte("works"), []byte{}
	if err := channel.Invoke(limited, "/Echo/Say", &said, &heard, grpc.ForceCodec(bare{})); err != nil { fmt.Println(err); os.Exit(1) }
	fmt.Println(string(heard))
}
"""

# A browser has a list of authorities of its own: the last ones of the sandbox's bundle, which no distribution ships, are put there.
_TRUST = """
mkdir -p ~/.pki/nssdb; certutil -d sql:$HOME/.pki/nssdb -N --empty-password
csplit -q -z -n 4 -f authority- $SSL_CERT_FILE '/-----BEGIN/' '{*}'
for file in $(ls authority-* | tail -n 3); do
    certutil -d sql:$HOME/.pki/nssdb -A -n $file -t C,, -i $file 2>/dev/null || :
done
"""
_BROWSE = "timeout 60 chromium --headless --no-sandbox --dump-dom"

MORE: dict[str, Program] = {
    "curl": Program(
        script=f"curl -sS --fail {PAGE} >said; {_SAME}", version="curl --version | cut -d ' ' -f 2 | head -n 1"
    ),
    "wget": Program(script=f"wget -nv -O said {PAGE}; {_SAME}", version="wget --version | cut -d ' ' -f 3 | head -n 1"),
    "curl, HTTP/2": Program(
        script=f"curl -sS --fail https://git.$SITE/ >said; "
        f'[ $SITE = {OPENED} ] && spoken=1.1 || spoken=2.0; grep -qx "hello over HTTP/$spoken" said && echo works',
        version="curl --version | cut -d ' ' -f 2 | head -n 1",
    ),
    "git over HTTPS, a push of 200 MB": Program(
        script="""
            at=https://git.$SITE/matrix.git
            git clone -q $at w; cd w
            git -c user.name=x -c user.email=x@x.test commit -q --allow-empty -m "$$-$(date +%N)"
            git push -q origin HEAD:refs/heads/$$-$(date +%N)
            # It is packed once for all of them, and taken away again: nothing of it is there for the next.
            cd $TOOLS/large; git push -q $at HEAD:refs/heads/large
            [ $(git ls-remote $at large | cut -f 1) = $(git rev-parse HEAD) ]
            git push -q $at :large; echo works""",
        prepare="""
            git init -q $TOOLS/large; cd $TOOLS/large
            python3 -c 'import random, sys
made = random.Random(1)
for _ in range(200):
    sys.stdout.buffer.write(made.randbytes(1 << 20))' >large
            git add large; git -c user.name=x -c user.email=x@x.test commit -q -m large
            git gc -q""",
        version="git --version | cut -d ' ' -f 3",
    ),
    "Node's fetch": _fetch("node"),
    f"Node's fetch, {_TOLD_TO.strip()}": _fetch("node", _TOLD_TO),
    "Node 20's fetch": _node("20"),
    "Node 24's fetch": _node("24"),
    f"Node 24's fetch, {_TOLD_TO.strip()}": _node("24", _TOLD_TO),
    "Bun's fetch": Program(
        script=f"bun fetch.js >said; {_SAME}",
        files={"fetch.js": _FETCH},
        prepare=_package(_BUN, "bin/bun", "bun"),
        version="bun --version",
    ),
    "a program compiled by Bun": Program(
        script=f"fetching >said; {_SAME}",
        prepare=f"{_package(_BUN, 'bin/bun', 'bun-compiler')}\n"
        f"cat >fetch.js <<'END'\n{_FETCH}\nEND\nbun-compiler build --compile --outfile $TOOLS/bin/fetching fetch.js >&2",
        version="bun-compiler --version",
    ),
    "Node's WebSocket": Program(script="node socket.js", files={"socket.js": _WEBSOCKET}, version="node --version"),
    "curl, server-sent events": Program(
        script="curl -sS --fail -N https://$SITE/events/$$-$(date +%N)/1 >said; grep -qx 'data: 0' said; echo works",
        version="curl --version | cut -d ' ' -f 2 | head -n 1",
    ),
    "Python's urllib": _python("", "import urllib.request\ntext = urllib.request.urlopen(url).read().decode()"),
    "requests": _python("requests", "import requests\ntext = requests.get(url).text"),
    # The second one is what names stand for inside: what is asked for by its name is in no network.
    "requests, a network in NO_PROXY": _python(
        "requests",
        """\
import requests
for name in ("no_proxy", "NO_PROXY"):
    os.environ[name] = f"{os.environ.get(name, 'localhost')},10.0.0.0/8,198.18.0.0/15"
text = requests.get(url).text""",
    ),
    "requests, trust_env off": _python(
        "requests",
        """\
import requests
session = requests.Session()
session.trust_env = False
text = session.get(url, verify=os.environ["SSL_CERT_FILE"]).text""",
    ),
    "httpx": _python("httpx", "import httpx\ntext = httpx.get(url).text"),
    "aiohttp": _python(
        "aiohttp",
        """\
import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()
text = asyncio.run(main())""",
    ),
    "npm, 300 packages": npm_ci(300, hangs="hangs, see below"),
    "pnpm": Program(
        # As it is, and with authorities of the project's own choice.
        script="for at in . chosen; do (cd $at; pnpm install >said 2>&1 || { cat said; exit 1; }); done; "
        "cd chosen; pnpm exec greet",
        files={
            ".npmrc": NPMRC,
            "package.json": manifest_of(["greeting"]),
            "chosen/.npmrc": f"{NPMRC}cafile=${{SSL_CERT_FILE}}\n",
            "chosen/package.json": manifest_of(["greeting"]),
        },
        prepare=f"npm install --silent --prefix $TOOLS/pnpm --registry https://$SITE/files/npm/ pnpm {_PNPM}; "
        "ln -s ../pnpm/node_modules/.bin/pnpm $TOOLS/bin/pnpm",
        version="pnpm --version",
        refusal_seconds=60,
    ),
    "yarn": Program(
        script="yarn install --silent >said 2>&1 || { cat said; exit 1; }; yarn --silent greet",
        files={".npmrc": NPMRC, "package.json": manifest_of(["greeting"])},
        prepare="npm install --silent --prefix $TOOLS/yarn --registry https://$SITE/files/npm/ yarn; "
        "ln -s ../yarn/node_modules/.bin/yarn $TOOLS/bin/yarn",
        version="yarn --version",
        refusal_seconds=60,
    ),
    "cargo": Program(
        script="cargo fetch >said 2>&1 || { cat said; exit 1; }; cargo run --quiet --offline",
        files={
            "Cargo.toml": '[package]\nname = "web"\nversion = "1.0.0"\nedition = "2021"\n'
            f'[dependencies]\ngreeting = "1"\n{names_of(CRATES)}',
            "src/main.rs": 'fn main() { println!("{}", greeting::SAID); }\n',
            ".cargo/config.toml": '[source.crates-io]\nreplace-with = "ours"\n'
            '[source.ours]\nregistry = "sparse+https://$SITE/files/cargo/"\n',
        },
        version="cargo --version | cut -d ' ' -f 2",
        refusal_seconds=60,
    ),
    "go": Program(
        script=_GO_RUN,
        files={
            "go.mod": f"{_GO_MOD}\nrequire {MODULE} {MODULE_VERSION}\n",
            "go.sum": go_sum(GO),
            "main.go": _GO_MAIN,
            "~/.config/go/env": _GO_ENV,
        },
        version=_GO_VERSION,
    ),
    "go get, a checksum database": Program(
        script=f"go get {MODULE}@{MODULE_VERSION} 2>&1; grep -c {MODULE} go.sum | grep -qx 2; {_GO_RUN}",
        files={
            "go.mod": _GO_MOD,
            "main.go": _GO_MAIN,
            "~/.config/go/env": f"{_GO_ENV}GOSUMDB={verifier()}\n",
        },
        version=_GO_VERSION,
    ),
    "Go's net/http": Program(
        script="$TOOLS/bin/go-client",
        prepare=f"cat >main.go <<'END'\n{_GO_CLIENT}\nEND\ngo mod init web 2>/dev/null; GOCACHE=$TOOLS/go-cache go build -o $TOOLS/bin/go-client .",
        version=_GO_VERSION,
    ),
    "Java": Program(
        script="java -cp $TOOLS/java Fetch",
        prepare=f"cat >Fetch.java <<'END'\n{_JAVA}\nEND\njavac -nowarn -d $TOOLS/java Fetch.java",
        version="java -version 2>&1 | grep -v Picked | cut -d '\"' -f 2 | head -n 1",
    ),
    "Maven": Program(
        script=f"rm -rf /home/sandbox/.m2; {_VERIFY}; rm -rf /home/sandbox/.m2; "
        f"mkdir /home/sandbox/.m2; cp settings.xml /home/sandbox/.m2; cd mirrored; {_VERIFY}; echo works",
        files={
            "pom.xml": _MAVEN.replace("REPOSITORIES", _REPOSITORIES),
            "mirrored/pom.xml": _MAVEN.replace("REPOSITORIES", ""),
            "settings.xml": _SETTINGS,
        },
        version="mvn -B --version 2>/dev/null | grep -o 'Apache Maven [0-9.]*' | cut -d ' ' -f 3",
    ),
    "uv python install": Program(
        script=f"$TOOLS/uv-python/bin/uv python install --quiet {PYTHON}; ~/.local/bin/python{PYTHON} -c 'print(\"works\")'",
        files={"uv.toml": 'python-downloads-json-url = "https://$SITE/files/python/list.json"\n'},
        prepare=uv_in("$TOOLS/uv-python"),
        version="$TOOLS/uv-python/bin/uv --version | cut -d ' ' -f 2",
        refusal_seconds=30,
    ),
    "gRPC": Program(
        script="python3 call.py",
        files={"call.py": _GRPC},
        version="python3 -c 'import grpc; print(grpc.__version__)'",
        not_opened="no HTTP/2 through an opened host",
    ),
    "gRPC, Go": Program(
        script="$TOOLS/bin/go-grpc",
        prepare=f"cat >main.go <<'END'\n{_GO_GRPC}\nEND\n"
        "GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$TOOLS/go-grpc-cache go build -o $TOOLS/bin/go-grpc main.go",
        version="dpkg-query -W -f '${Version}' golang-google-grpc-dev | cut -d - -f 1",
        not_opened="no HTTP/2 through an opened host",
    ),
    "Chromium": Program(
        # The page of an error holds much besides its code.
        script=f"{_TRUST}\n{_BROWSE} {PAGE} >said 2>errors || :; "
        'grep -q "hello from $SITE" said || { grep -ho "ERR_[A-Z_]*" said errors || tail errors; exit 1; }; echo works',
        version="chromium --version 2>/dev/null | cut -d ' ' -f 2",
        refusal_seconds=60,
    ),
}
_SERVERS = """
const test = require('node:test'), assert = require('node:assert'), http = require('node:http');
for (const address of ['127.0.0.1', 'localhost', '0.0.0.0'])
    for (let number = 0; number < 20; number++)
        test(`${address} ${number}`, async () => {
            const server = http.createServer((_, answer) => answer.end('local'));
            await new Promise((ready) => server.listen(0, address, ready));
            const answer = await fetch(`http://${address === '0.0.0.0' ? 'localhost' : address}:${server.address().port}/`);
            assert.equal(await answer.text(), 'local');
            server.close();
            server.closeAllConnections();
        });
"""
_V6 = """
import http.client, http.server, socket, threading, unittest, requests
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"local")
    def log_message(self, *arguments):
        pass
class OverV6(unittest.TestCase):
    def test_a_server(self):
        with Server(("::1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.assertEqual(requests.get(f"http://[::1]:{server.server_port}/").text, "local")
            plain = http.client.HTTPConnection("::1", server.server_port)
            plain.request("GET", "/")
            self.assertEqual(plain.getresponse().read(), b"local")
            server.shutdown()
unittest.main()
"""
_GO_TEST = """
package web

import ("io"; "net/http"; "net/http/httptest"; "testing")

func TestServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "local") }))
	defer server.Close()
	answer, err := http.Get(server.URL)
	if err != nil { t.Fatal(err) }
	text, _ := io.ReadAll(answer.Body)
	if string(text) != "local" { t.Fatal(string(text)) }
}
"""
_MANY = """
import subprocess
processes = [subprocess.Popen(("cat",), stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(500)]
said = b"".join(process.communicate(b"x")[0] for process in processes)
print("works" if said == b"x" * 500 else len(said))
"""
_SERVE = "require('node:http').createServer((_, answer) => answer.end('<p>local</p>')).listen(3000, 'localhost', () => console.log('up'))"

LOCAL: dict[str, Program] = {
    "Chromium, a dev server on localhost": Program(
        script=f"node server.js >up & until [ -s up ]; do sleep 0.1; done; "
        f"{_BROWSE} http://localhost:3000/ >said 2>errors || :; cat errors said; grep -q '<p>local</p>' said; echo works",
        files={"server.js": _SERVE},
        version="chromium --version 2>/dev/null | cut -d ' ' -f 2",
    ),
    "Node's test runner, servers on localhost": Program(
        script="node --test suite.test.js >said 2>&1 || { cat said; exit 1; }; echo works",
        files={"suite.test.js": _SERVERS},
        version="node --version",
    ),
    "go test, servers on localhost": Program(
        script="GOCACHE=$TOOLS/go-test-cache go test . >said 2>&1 || { cat said; exit 1; }; echo works",
        files={"go.mod": _GO_MOD, "web_test.go": _GO_TEST},
        version=_GO_VERSION,
    ),
    "Python's unittest, IPv6 loopback": Program(
        script="python3 suite.py 2>&1; echo works",
        files={"suite.py": _V6},
        version="python3 --version | cut -d ' ' -f 2",
    ),
    "500 processes at once": Program(
        script="python3 many.py", files={"many.py": _MANY}, version="python3 --version | cut -d ' ' -f 2"
    ),
}
"""What needs no site: it speaks to itself."""

ALL: dict[str, Program] = {**MORE, **PROGRAMS}
"""What goes to a site."""
