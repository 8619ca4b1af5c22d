// Drives Gimlet through the Codex SDK, against the mock server of the bench.
//
// By hand, not part of `cargo test`, because it needs node 18 or later and one npm package:
//
//   cargo build --release
//   mkdir /tmp/sdk && npm --prefix /tmp/sdk install @openai/codex-sdk
//   cp tests/sdk/check.mjs /tmp/sdk/ && cd /tmp/sdk
//   node check.mjs --gimlet REPO/target/release/gimlet --repo REPO
//
// Prints one line for each check; ends with 1 when one failed. `--bench PATH` names a built
// bench binary instead of running `cargo bench` in REPO.

import { spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Codex } from "@openai/codex-sdk";

const option = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : process.argv[at + 1];
};
const gimlet = option("gimlet", "target/release/gimlet");
const folder = mkdtempSync(join(tmpdir(), "gimlet-sdk-"));
const workspace = join(folder, "workspace");
const home = join(folder, "home");
const record = join(folder, "record");
for (const name of [workspace, home, record]) mkdirSync(name);
const image = join(workspace, "dot.png");
writeFileSync(
  image,
  Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "base64",
  ),
);

// One response for each request that the checks below make, in their order.
const script = [
  { say: "Hello from the mock." },
  { end: {} },
  { reasoning: "Look first." },
  { call: { name: "exec_command", arguments: { cmd: "echo from-the-command" } } },
  { end: {} },
  { say: "The command ran." },
  { end: {} },
  { say: '{"word":"heron","length":5}' },
  { end: {} },
  { say: "One dot." },
  { end: {} },
  { say: "The word was heron." },
  { end: {} },
  { delay_ms: 60000 },
  { say: "too late" },
  { end: {} },
];
const scriptFile = join(folder, "script.jsonl");
writeFileSync(scriptFile, script.map((line) => JSON.stringify(line)).join("\n"));

const startServer = async () => {
  const args = ["serve", "--script", scriptFile, "--record", record];
  const bench = option("bench");
  const server = bench
    ? spawn(bench, args, { stdio: ["ignore", "pipe", "inherit"] })
    : spawn("cargo", ["bench", "--quiet", "--bench", "bench", "--", ...args], {
        cwd: option("repo", "."),
        stdio: ["ignore", "pipe", "inherit"],
        detached: true,
      });
  const stop = () => (bench ? server.kill() : process.kill(-server.pid));
  for await (const line of createInterface({ input: server.stdout })) {
    if (line.startsWith("http://")) return { url: line.trim(), stop };
  }
  throw new Error("the mock server did not start");
};

let failures = 0;
const check = async (name, body) => {
  try {
    await body();
    console.log(`ok      ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED  ${name}: ${error.message ?? error}`);
  }
};
const expect = (holds, what) => {
  if (!holds) throw new Error(what);
};
const lastRequest = () => {
  const files = readdirSync(record).filter((name) => name.endsWith(".request.json"));
  return readFileSync(join(record, files.sort().at(-1)), "utf8");
};

const server = await startServer();
const { OPENAI_API_KEY, CODEX_API_KEY, ...env } = process.env;
const codex = new Codex({
  codexPathOverride: gimlet,
  baseUrl: server.url,
  apiKey: "sk-mock",
  env: { ...env, GIMLET_HOME: home, CODEX_HOME: home },
  // Gimlet has no such provider of its own; a Codex binary then speaks plain HTTP to the mock.
  config: {
    model_provider: "mock",
    model_providers: {
      mock: { name: "mock", base_url: server.url, wire_api: "responses", env_key: "CODEX_API_KEY" },
    },
  },
});
const options = { workingDirectory: workspace, skipGitRepoCheck: true, model: "gpt-5.5" };
let remembered;

await check("run", async () => {
  const thread = codex.startThread(options);
  const turn = await thread.run("Say hello.");
  expect(turn.finalResponse === "Hello from the mock.", `finalResponse is ${turn.finalResponse}`);
  expect(turn.usage.input_tokens > 0, `usage is ${JSON.stringify(turn.usage)}`);
  expect(typeof thread.id === "string", "the thread has no id");
  remembered = thread.id;
});

await check("runStreamed", async () => {
  const options_ = { ...options, sandboxMode: "workspace-write", approvalPolicy: "never" };
  const { events } = await codex.startThread(options_).runStreamed("Run something.");
  const all = [];
  for await (const event of events) all.push(event);
  const kinds = all.map((event) => event.type);
  expect(kinds[0] === "thread.started" && kinds[1] === "turn.started", kinds.join(" "));
  expect(kinds.at(-1) === "turn.completed", kinds.join(" "));
  const command = all
    .filter((event) => event.type === "item.completed")
    .map((event) => event.item)
    .find((item) => item.type === "command_execution");
  expect(command, "no command_execution item");
  expect(command.aggregated_output.includes("from-the-command"), JSON.stringify(command));
  expect(command.exit_code === 0 && command.status === "completed", JSON.stringify(command));
});

await check("outputSchema", async () => {
  const outputSchema = {
    type: "object",
    properties: { word: { type: "string" }, length: { type: "integer" } },
    required: ["word", "length"],
    additionalProperties: false,
  };
  const turn = await codex.startThread(options).run("A word, please.", { outputSchema });
  expect(JSON.parse(turn.finalResponse).word === "heron", turn.finalResponse);
  const format = JSON.parse(lastRequest()).text.format;
  expect(format.type === "json_schema" && format.schema.required.length === 2, JSON.stringify(format));
});

await check("local_image", async () => {
  const turn = await codex.startThread(options).run([
    { type: "text", text: "What is this?" },
    { type: "local_image", path: image },
  ]);
  expect(turn.finalResponse === "One dot.", turn.finalResponse);
  expect(lastRequest().includes("data:image/png;base64,"), "the image was not sent");
});

await check("resumeThread", async () => {
  const thread = codex.resumeThread(remembered, options);
  const turn = await thread.run("Which word was it?");
  expect(turn.finalResponse === "The word was heron.", turn.finalResponse);
  const body = lastRequest();
  expect(body.includes("Say hello.") && body.includes("Which word"), "the history was not sent");
  expect(thread.id === remembered, `the id became ${thread.id}`);
});

await check("abort", async () => {
  const abort = new AbortController();
  const started = Date.now();
  const turn = codex.startThread(options).runStreamed("Wait.", { signal: abort.signal });
  let thrown;
  try {
    for await (const event of (await turn).events) {
      if (event.type === "turn.started") abort.abort();
    }
  } catch (error) {
    thrown = error;
  }
  expect(thrown, "an aborted turn must throw");
  expect(Date.now() - started < 30000, "it waited for the server");
});

server.stop();
console.log(failures === 0 ? "all good" : `${failures} failed; see ${folder}`);
process.exit(failures === 0 ? 0 : 1);
