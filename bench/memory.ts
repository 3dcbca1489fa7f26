// Measures the memory of a site after load: creates and deletes objects, so that only history
// remains, waits, and reads the memory of the processes.

import { setTimeout as delay } from 'node:timers/promises';
import { type Figure, rounded } from './figure.ts';
import { residentBytes } from './process-stat.ts';
import { type Rival, role, roles } from './rival.ts';
import { sized } from './size.ts';

const OBJECTS = sized(60_000, 20);
const WRITERS = sized(32, 4);

/** Both sides give memory back by themselves, if they do, within a minute. */
const SETTLE_MS = sized(75_000, 0);

/** In processes of their own, one after the other: what an earlier measurement left would count. */
export async function* measureBusyMemory(
  startOurs: (() => Promise<Rival>) | undefined,
  startTheirs: () => Promise<Rival>,
): AsyncGenerator<Figure> {
  const theirs = await afterWrites(startTheirs);
  const ours = startOurs === undefined ? Number.NaN : await afterWrites(startOurs);
  yield {
    bench: 'memory-after-60000-creates-and-deletes',
    value: rounded(ours / 2 ** 20),
    unit: 'MiB',
    anchor: 'kube-apiserver and etcd',
    anchorValue: rounded(theirs / 2 ** 20),
    ratio: rounded(theirs / ours),
    aimAtMost: 256,
  };
}

async function afterWrites(start: () => Promise<Rival>): Promise<number> {
  const rival = await start();
  try {
    let next = 0;
    const writer = async (): Promise<void> => {
      while (next < OBJECTS) {
        const name = `passing-${(next += 1)}`;
        await send(rival, 'POST', roles, role(name));
        await send(rival, 'DELETE', `${roles}/${name}`);
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, writer));
    await delay(SETTLE_MS);
    return residentBytes(rival.pids);
  } finally {
    await rival.stop();
  }
}

async function send(rival: Rival, method: string, path: string, body?: string): Promise<void> {
  const answer = await rival.client.send({ method, path, ...(body !== undefined && { body }) });
  if (answer.status >= 300) throw new Error(`${rival.name} refused ${method}: ${answer.text}`);
}
