// Runs Perfetto's trace processor (WebAssembly) in Node: requests of its RPC protocol come on standard input, replies
// go to standard output. The argument is the folder of a Perfetto UI, with engine_bundle.js and trace_processor.wasm.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const folder = process.argv[2];

class LocalFile {
  open(_method, name) { this.name = path.basename(name); }
  send() { this.response = new Uint8Array(fs.readFileSync(path.join(folder, this.name))).buffer; }
}

function fail(problem) {
  process.stderr.write(`${problem?.message ?? problem}`.slice(0, 2000));  // a stack has the whole bundle in it
  process.exit(1);
}

process.on("uncaughtException", fail);
process.on("unhandledRejection", fail);

const replies = [];
const port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
const log = () => {};
const worker = vm.createContext({
  XMLHttpRequest: LocalFile, location: { href: "http://localhost/engine_bundle.js" }, WorkerGlobalScope: {},
  console: { log, warn: log, error: log }, performance, crypto, setTimeout, clearTimeout, URL, TextDecoder, TextEncoder,
});
vm.runInContext("var self = globalThis;", worker);
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker);
worker.onmessage({ data: port });
setImmediate(() => {  // the processor is ready when its promises are resolved
  port.onmessage({ data: new (vm.runInContext("Uint8Array", worker))(fs.readFileSync(0)) });
  process.stdout.write(Buffer.concat(replies));
});
