// Opens many watches, and measures the time until a change reaches the last of a thousand watchers.

import { type ClientHttp2Session, connect } from 'node:http2';
import { request } from 'node:https';
import { type Figure, median, rounded, spread } from './figure.ts';
import { type Rival, role, roles } from './rival.ts';
import { sized } from './size.ts';

export const WATCHERS = sized(1000, 1000, 20);
const ROUNDS = sized(7, 5, 1);

/** Both servers allow at least this many streams on a connection. */
const STREAMS_PER_CONNECTION = 100;

/** A watcher that has not seen a change by then never will. */
const LATE_AFTER_MS = 30_000;

export type Wire = 'connection' | 'stream';

export const wireNames = { connection: 'connections', stream: 'HTTP/2 streams' } as const;

interface Watchers {
  /** Resolves when every watcher has seen an event that mentions the name. */
  seen(name: string): Promise<number>;
  close(): Promise<void>;
}

export async function* measureWatch(hansa: Rival, kube: Rival): AsyncGenerator<Figure> {
  for (const wire of ['connection', 'stream'] as const) {
    const theirs = median(await timesToLast(kube, wire));
    const times = await timesToLast(hansa, wire);
    const ours = median(times);
    yield {
      bench: `watch-to-last-of-1000-${wire}s`,
      value: rounded(ours),
      unit: 'ms',
      ...spread(times),
      anchor: `kube-apiserver, ${wireNames[wire]}`,
      anchorValue: rounded(theirs),
      ratio: rounded(theirs / ours),
    };
  }
}

async function timesToLast(rival: Rival, wire: Wire): Promise<readonly number[]> {
  const watchers = await openWatches(rival, wire, WATCHERS);
  const times: number[] = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const name = `watched-${wire}-${round}`;
    const all = watchers.seen(name);
    const sent = performance.now();
    const answer = await rival.client.send({ method: 'POST', path: roles, body: role(name) });
    if (answer.status !== 201) throw new Error(`${rival.name} refused a role: ${answer.text}`);
    const took = (await all) - sent;
    if (round > 0) times.push(took);
  }
  await watchers.close();
  return times;
}

async function currentVersion(rival: Rival): Promise<string> {
  const { text } = await rival.client.send({ method: 'GET', path: `${roles}?limit=1` });
  return (JSON.parse(text) as { metadata: { resourceVersion: string } }).metadata.resourceVersion;
}

/** Counts, for the name that is waited for, which watchers have seen it. */
class Sightings {
  #name = '';
  #missing = 0;
  /** By watcher: the end of what it has read, where a name may have begun; true where it has seen it. */
  #seen: (string | true)[] = [];
  #done: (at: number) => void = () => {};

  wait(name: string, watchers: number): Promise<number> {
    this.#name = name;
    this.#missing = watchers;
    this.#seen = Array.from({ length: watchers }, () => '');
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`${this.#missing} of ${watchers} watchers did not see ${name}`)),
        LATE_AFTER_MS,
      );
      this.#done = (at) => {
        clearTimeout(timer);
        resolve(at);
      };
    });
  }

  chunk(watcher: number, text: string): void {
    const before = this.#seen[watcher];
    if (this.#missing === 0 || before === undefined || before === true) return;
    const read = before + text;
    if (!read.includes(this.#name)) {
      this.#seen[watcher] = read.slice(-this.#name.length);
      return;
    }
    this.#seen[watcher] = true;
    this.#missing -= 1;
    if (this.#missing === 0) this.#done(performance.now());
  }
}

/** From the current version of the collection. */
export async function openWatches(rival: Rival, wire: Wire, count: number): Promise<Watchers> {
  const version = await currentVersion(rival);
  const sightings = new Sightings();
  const path = `${roles}?watch=true&resourceVersion=${version}&timeoutSeconds=600`;
  const headers = { authorization: `Bearer ${rival.token}`, accept: 'application/json' };
  const closers: (() => Promise<void>)[] = [];
  let sessions: ClientHttp2Session[] = [];
  if (wire === 'stream')
    sessions = Array.from({ length: Math.ceil(count / STREAMS_PER_CONNECTION) }, () => {
      const session = connect(rival.url, { ca: rival.ca, checkServerIdentity: () => undefined });
      closers.push(
        () =>
          new Promise((resolve) => {
            session.once('close', () => resolve());
            session.destroy();
          }),
      );
      return session;
    });
  // A few at a time: a burst of a thousand handshakes would only measure the burst.
  const lanes = 20;
  await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      for (let index = lane; index < count; index += lanes) {
        const session = sessions[Math.floor(index / STREAMS_PER_CONNECTION)];
        const onText = (text: string): void => sightings.chunk(index, text);
        if (session === undefined) closers.push(await byConnection(rival, path, headers, onText));
        else await byStream(session, path, headers, onText);
      }
    }),
  );
  return {
    seen: (name) => sightings.wait(name, count),
    close: async () => {
      await Promise.all(closers.map((close) => close()));
    },
  };
}

function byConnection(
  rival: Rival,
  path: string,
  headers: Record<string, string>,
  onText: (text: string) => void,
): Promise<() => Promise<void>> {
  return new Promise((resolve, reject) => {
    const outgoing = request(rival.url + path, {
      agent: false,
      ca: rival.ca,
      checkServerIdentity: () => undefined,
      headers,
    });
    outgoing.on('error', reject);
    outgoing.once('response', (incoming) => {
      if (incoming.statusCode !== 200) {
        reject(new Error(`watch: ${incoming.statusCode}`));
        return;
      }
      incoming.setEncoding('utf8').on('data', onText);
      incoming.on('error', () => {});
      resolve(
        () =>
          new Promise((closed) => {
            outgoing.once('close', () => closed());
            outgoing.destroy();
          }),
      );
    });
    outgoing.end();
  });
}

function byStream(
  session: ClientHttp2Session,
  path: string,
  headers: Record<string, string>,
  onText: (text: string) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':path': path, ...headers });
    stream.on('error', reject);
    stream.once('response', (answer) => {
      if (answer[':status'] !== 200) {
        reject(new Error(`watch: ${answer[':status']}`));
        return;
      }
      stream.setEncoding('utf8').on('data', onText);
      resolve();
    });
    stream.end();
  });
}
