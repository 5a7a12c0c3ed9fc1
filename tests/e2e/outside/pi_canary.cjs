/**
 * Loaded into pi's own process before anything else: a line of JSON in CANARY_LOG for each program that it starts, with its arguments, and
 * for each file that it opens, lists or looks up whose path holds CANARY_WORD.
 */
"use strict";

const fs = require("node:fs");
const children = require("node:child_process");
const { syncBuiltinESMExports } = require("node:module");
const { isMainThread } = require("node:worker_threads");

const word = process.env.CANARY_WORD;
const descriptor = fs.openSync(process.env.CANARY_LOG, "a");
const write = fs.writeSync;

function tell(what, detail) {
  write(descriptor, `${JSON.stringify([what, detail])}\n`);
}

function watch(owner, names, seen) {
  for (const name of names) {
    const original = owner[name];
    if (typeof original !== "function") continue;
    owner[name] = function (...args) {
      seen(name, args);
      return new.target ? Reflect.construct(original, args, original) : original.apply(this, args);
    };
    // What hangs on a function (util.promisify's word, realpath.native) stays there.
    Object.defineProperties(owner[name], Object.getOwnPropertyDescriptors(original));
  }
}

const OF_TWO = /^(rename|copyFile|cp)/;

function path(name, args) {
  for (const arg of args.slice(0, OF_TWO.test(name) ? 2 : 1)) {
    const text = typeof arg === "string" || Buffer.isBuffer(arg) || arg instanceof URL ? String(arg) : "";
    // Below a device nothing is looked up.
    if (text.includes(word) && !text.startsWith("/dev/null/")) tell("file", `${name} ${text}`);
  }
}

const FILES = ["open", "openAsBlob", "readFile", "writeFile", "appendFile", "readdir", "opendir", "stat", "lstat", "access",
  "exists", "realpath", "mkdir", "rename", "rm", "unlink", "copyFile", "cp", "readlink", "createReadStream",
  "createWriteStream", "watch", "glob"];
watch(fs, FILES.flatMap((name) => [name, `${name}Sync`]), path);
watch(fs.promises, FILES, path);
const PROGRAMS = ["spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "fork"];
watch(children, PROGRAMS, (_name, args) => tell("program", [args[0], ...(Array.isArray(args[1]) ? args[1] : [])].join(" ")));
syncBuiltinESMExports();
if (isMainThread) tell("awake", process.version);
