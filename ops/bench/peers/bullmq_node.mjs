// BullMQ on Node, the same commands and reports as driver.py. The first argument is the folder that holds node_modules.
import { createRequire } from "node:module";
import { parseArgs } from "node:util";

const [folder, url, command, ...rest] = process.argv.slice(2);
const { Queue, Worker } = createRequire(`${folder}/package.json`)("bullmq");
const { values } = parseArgs({
  args: rest,
  options: {
    work: { type: "string", default: "noop" },
    concurrency: { type: "string", default: "100" },
    count: { type: "string", default: "1000" },
    "payload-bytes": { type: "string", default: "200" },
    prefix: { type: "string", default: "job" },
    "gap-ms": { type: "string", default: "20" },
  },
});
const BATCH = 1000;
const SLEEP_MS = 50;
const address = new URL(url);
const connection = { host: address.hostname, port: Number(address.port) };
const report = (...words) => process.stdout.write(`@${words.join(" ")}\n`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function requests(count, payloadBytes) {
  const text = "x".repeat(Math.max(0, payloadBytes - '{"id":"job-0000000","text":""}'.length));
  return Array.from({ length: count }, (_, number) => ({ id: `${values.prefix}-${String(number).padStart(7, "0")}`, text }));
}

function work() {
  let done = 0, told = 0, first = 0n, last = 0n;
  setInterval(() => {
    if (done !== told) {
      told = done;
      report("count", done, first, last);
    }
  }, 20);
  const run = async (job) => {
    if (!first) first = process.hrtime.bigint();
    if (values.work === "stamp" || values.work === "hang") report("stamp", job.data.id, process.hrtime.bigint());
    if (values.work === "sleep") await sleep(SLEEP_MS);
    if (values.work === "hang") await sleep(3_600_000);
    last = process.hrtime.bigint();
    done += 1;
  };
  new Worker("bench", run, { connection, concurrency: Number(values.concurrency) }).on("error", console.error);
}

async function produce() {
  const queue = new Queue("bench", { connection });
  const wanted = requests(Number(values.count), Number(values["payload-bytes"]));
  const one = (request) => queue.add("job", request, { jobId: request.id });
  const many = (batch) =>
    queue.addBulk(batch.map((request) => ({ name: "job", data: request, opts: { jobId: request.id } })));
  if (command === "ping") {
    await queue.waitUntilReady();
    for (const request of wanted) {
      const calledAt = process.hrtime.bigint();
      await one(request);
      report("stamp", request.id, calledAt);
      await sleep(Number(values["gap-ms"]));
    }
  } else {
    await many(wanted.slice(0, 1));
    const begun = process.hrtime.bigint();
    if (command === "bulk") {
      for (let at = 1; at < wanted.length; at += BATCH) await many(wanted.slice(at, at + BATCH));
    } else {
      for (const request of wanted.slice(1)) await one(request);
    }
    report("took", wanted.length - 1, process.hrtime.bigint() - begun);
  }
  await queue.close();
}

if (command === "worker") work();
else await produce();
