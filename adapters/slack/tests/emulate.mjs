// Runs the Slack of `emulate` with an event subscription, which its command line cannot make.
//
//   node emulate.mjs PACKAGE SEED EVENTS
//
// PACKAGE: the folder of the package; SEED: the workspace as JSON; EVENTS: where events go, signed.
// Writes the address of the server on one line when it listens, and ends with its standard input.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, seed, events] = process.argv.slice(2);
const dist = join(folder, "dist");
for (const name of readdirSync(dist)) {
  if (!/^dist-.*\.js$/.test(name) || !readFileSync(join(dist, name), "utf8").includes("slackPlugin")) continue;
  const { slackPlugin } = await import(pathToFileURL(join(dist, name)));
  const register = slackPlugin.register.bind(slackPlugin);
  slackPlugin.register = (app, store, webhooks, ...more) => {
    webhooks.register({ url: events, events: ["*"], active: true, owner: "slack" });
    return register(app, store, webhooks, ...more);
  };
}
const { createEmulator } = await import(pathToFileURL(join(dist, "api.js")));
const { createServer } = await import("node:net");
const probe = createServer().listen(0, "127.0.0.1");
await new Promise((resolve) => probe.once("listening", resolve));
const { port } = probe.address();
await new Promise((resolve) => probe.close(resolve));
const baseUrl = `http://127.0.0.1:${port}`;
await createEmulator({ service: "slack", port, baseUrl, seed: JSON.parse(readFileSync(seed, "utf8")) });
console.log(baseUrl);
process.stdin.resume();
process.stdin.once("end", () => process.exit(0));
