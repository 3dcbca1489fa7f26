// Measures the memory of a site and of kube-apiserver after load: creates and deletes objects, so that only history
// remains, waits, and reads the memory of the processes. `node bench/memory.ts` prints one JSON object.

import { setTimeout as delay } from 'node:timers/promises';
import { type Figure, rounded } from './figure.ts';
import { residentBytes } from './process-stat.ts';
import { whileQuiet } from './quiet.ts';
import { type Rival, role, roles, startHansa, startKube } from './rival.ts';
import { sized } from './size.ts';

const OBJECTS = sized(60_000, 60_000, 20);
const WRITERS = sized(32, 32, 4);

/** Both sides give memory back by themselves, if they do, within a minute. */
const SETTLE_MS = sized(75_000, 75_000, 0);

async function writeTo(rival: Rival): Promise<void> {
  let next = 0;
  const writer = async (): Promise<void> => {
    while (next < OBJECTS) {
      const name = `passing-${(next += 1)}`;
      await send(rival, 'POST', roles, role(name));
      await send(rival, 'DELETE', `${roles}/${name}`);
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
}

async function send(rival: Rival, method: string, path: string, body?: string): Promise<void> {
  const answer = await rival.client.send({ method, path, ...(body !== undefined && { body }) });
  if (answer.status >= 300) throw new Error(`${rival.name} refused ${method}: ${answer.text}`);
}

// In new processes: what an earlier measurement left would count.
const rivals: Rival[] = [];
try {
  for (const start of [startKube, startHansa]) {
    const rival = await start();
    rivals.push(rival);
    await writeTo(rival);
  }
  const settled = delay(SETTLE_MS);
  const [theirs, ours] = await whileQuiet(async () => {
    await settled;
    return rivals.map(({ pids }) => residentBytes(pids)) as [number, number];
  });
  const figure: Figure = {
    bench: 'memory-after-60000-creates-and-deletes',
    value: rounded(ours / 2 ** 20),
    unit: 'MiB',
    anchor: 'kube-apiserver and etcd',
    anchorValue: rounded(theirs / 2 ** 20),
    ratio: rounded(theirs / ours),
    aimAtMost: 256,
  };
  console.log(JSON.stringify(figure));
} finally {
  for (const rival of rivals) await rival.stop();
}
