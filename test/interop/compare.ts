// Replays a transcript on two servers and reports where their answers differ.

import { parse as parseYaml } from 'yaml';
import type { Json } from '../../src/api/object.ts';
import { judge } from './deviations.ts';
import { isTree, Ledger } from './ledger.ts';
import type { Story } from './story.ts';
import type { Query, Step, Subject } from './transcript.ts';
import type { WireAnswer, WireClient, WireRequest } from './wire.ts';

export interface Side {
  readonly name: string;
  readonly client: WireClient;
}

export interface Exchange {
  readonly request: WireRequest;
  readonly answer: WireAnswer;
}

/** Where two answers differ: a path into the answer, and what is there on either side. */
export interface Place {
  readonly path: string;
  readonly one: Json | undefined;
  readonly other: Json | undefined;
}

export interface Difference {
  readonly index: number;
  readonly what: string;
  readonly places: readonly Place[];
  readonly exchanges: Readonly<Record<string, Exchange>>;
}

type Tree = { [key: string]: Json };

const base = '/apis/hansa.dev/v1alpha1';

/** Headers that a client acts on. Dates, lengths and request ids belong to one server alone. */
const compared = ['content-type', 'warning', 'retry-after', 'allow', 'location'] as const;

/**
 * A step, or a ready-made request for what no generator would think of, or a look back: `history`
 * watches from where `mark` was, and so gets every event since then in one answer.
 */
export type Play =
  | Step
  | ({ readonly op: 'raw' } & WireRequest)
  | { readonly op: 'mark'; readonly subject: Subject }
  | {
      readonly op: 'history';
      readonly subject: Subject;
      readonly accept: string;
      readonly query: Query;
    };

/**
 * Plays a story on both sides and returns the faults. Ends early where a deviation made the two
 * sides different; what it left is cleaned up all the same.
 */
export async function compareStory(
  sides: readonly [Side, Side],
  story: Story,
): Promise<readonly Difference[]> {
  const ledgers = [new Ledger(), new Ledger()] as const;
  const faults: Difference[] = [];
  let index = 0;
  let ended = false;
  const play = async (step: Play): Promise<void> => {
    const at = index;
    index += 1;
    let difference = await comparePlay(sides, ledgers, step, at);
    // A busy machine may be late with events; only then is a longer look worth its time.
    if (step.op === 'history' && difference !== undefined && judge(difference).fault !== undefined)
      difference = await comparePlay(sides, ledgers, { ...step, query: patient(step.query) }, at);
    if (difference === undefined || ended) return;
    const { fault, ends } = judge(difference);
    if (fault !== undefined) faults.push(fault);
    ended = ends;
  };
  for (const step of story.steps) if (!ended) await play(step);
  if (!ended) await Promise.all(story.histories.map(play));
  for (const step of story.cleanUp) await play(step);
  return faults;
}

function patient(query: Query): Query {
  return { ...query, timeoutSeconds: '6' };
}

async function comparePlay(
  sides: readonly [Side, Side],
  ledgers: readonly [Ledger, Ledger],
  step: Play,
  index: number,
): Promise<Difference | undefined> {
  const [left, right] = sides;
  const [one, other] = await Promise.all([
    exchange(left, ledgers[0], step),
    exchange(right, ledgers[1], step),
  ]);
  const places: Place[] = [];
  // Named here and in this order, so that names are given alike on both sides, also where several
  // answers are under way.
  diff(
    '',
    normalise(step, one.answer, ledgers[0]),
    normalise(step, other.answer, ledgers[1]),
    places,
  );
  for (const [at, ledger] of ledgers.entries())
    for (const complaint of ledger.complaints.splice(0))
      places.push({ path: `${sides[at]?.name}`, one: complaint, other: undefined });
  if (places.length === 0) return undefined;
  const exchanges = { [left.name]: one, [right.name]: other };
  return { index, what: describe(step), places, exchanges };
}

async function exchange(side: Side, ledger: Ledger, step: Play): Promise<Exchange> {
  const request = requestOf(step, ledger);
  try {
    return { request, answer: await side.client.send(request) };
  } catch (error) {
    // A connection that is cut is an answer too, if a poor one.
    const text = (error as Error).message;
    return { request, answer: { status: 0, headers: {}, text, bytes: Buffer.from(text) } };
  }
}

export function requestOf(step: Play, ledger: Ledger): WireRequest {
  if (step.op === 'raw') return step;
  const collection = `${base}/${step.subject.plural}`;
  const key = (name: string): string => `${step.subject.plural}/${name}`;
  switch (step.op) {
    case 'create':
      return write('POST', collection, step.query, step.body);
    case 'update': {
      const found = ledger.object(key(step.name), step.base);
      const object: Tree = found ?? {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: step.subject.kind,
        metadata: { name: step.name },
        spec: {},
      };
      if (step.base === 'none') delete (object['metadata'] as Tree)['resourceVersion'];
      for (const [path, value] of Object.entries(step.changes)) change(object, path, value);
      const path = `${collection}/${step.name}${step.status ? '/status' : ''}`;
      return write('PUT', path, step.query, object);
    }
    case 'patch': {
      let body = step.body;
      if (step.base !== 'none' && isTree(body)) {
        const version = ledger.version(key(step.name), step.base);
        const metadata = isTree(body['metadata']) ? body['metadata'] : {};
        body = { ...body, metadata: { ...metadata, resourceVersion: version } };
      }
      const type = {
        json: 'json-patch+json',
        merge: 'merge-patch+json',
        apply: 'apply-patch+yaml',
      };
      const path = `${collection}/${step.name}${step.status ? '/status' : ''}`;
      return write('PATCH', path, step.query, body, `application/${type[step.type]}`);
    }
    case 'delete': {
      const preconditions: Tree = {
        ...(step.uid === undefined ? {} : { uid: ledger.uid(key(step.name), step.uid) }),
        ...(step.base === 'none'
          ? {}
          : { resourceVersion: ledger.version(key(step.name), step.base) }),
      };
      const options: Tree = {
        ...step.options,
        ...(Object.keys(preconditions).length === 0 ? {} : { preconditions }),
      };
      const path = `${collection}/${step.name}`;
      return Object.keys(options).length === 0
        ? { method: 'DELETE', path: path + search(step.query) }
        : write('DELETE', path, step.query, {
            apiVersion: 'meta.k8s.io/v1',
            kind: 'DeleteOptions',
            ...options,
          });
    }
    case 'read':
      return {
        method: 'GET',
        path: `${collection}${step.name === undefined ? '' : `/${step.name}`}${search(step.query)}`,
        headers: { accept: step.accept },
      };
    case 'mark':
      return { method: 'GET', path: `${collection}?limit=1` };
    case 'history':
      return {
        method: 'GET',
        path:
          collection +
          search({
            watch: 'true',
            resourceVersion: ledger.marks.get(step.subject.plural) ?? '0',
            timeoutSeconds: '1',
            ...step.query,
          }),
        headers: { accept: step.accept },
      };
    case 'delete-all':
    default:
      return { method: 'DELETE', path: collection + search(step.query) };
  }
}

function write(
  method: string,
  path: string,
  query: Query,
  body: Json,
  type = 'application/json',
): WireRequest {
  return {
    method,
    path: path + search(query),
    headers: { 'content-type': type },
    body: JSON.stringify(body),
  };
}

function search(query: Query): string {
  const text = new URLSearchParams(query).toString();
  return text === '' ? '' : `?${text}`;
}

function change(object: Tree, path: string, value: Json): void {
  const [first = '', second] = path.split('.');
  if (second === undefined) {
    object[first] = value;
    return;
  }
  const found = object[first];
  const inner: Tree = isTree(found) ? found : {};
  if (value === null) delete inner[second];
  else inner[second] = value;
  object[first] = inner;
}

function normalise(step: Play, answer: WireAnswer, ledger: Ledger): Json {
  const headers: Tree = {};
  for (const name of compared) {
    const value = answer.headers[name];
    if (value !== undefined) headers[name] = ledger.text(String(value));
  }
  const yaml = answer.headers['content-type'] === 'application/yaml';
  const body = yaml ? (parseYaml(answer.text) as Json) : parse(answer.text);
  if (body === undefined) return { status: answer.status, headers, text: ledger.text(answer.text) };
  const normal = ledger.normalise(body);
  if (answer.status < 300) learn(step, body, ledger);
  return { status: answer.status, headers, body: normal };
}

/** JSON, or one JSON value a line as in a watch, or undefined. */
function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // Not one value.
  }
  try {
    const events = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
    return events.filter((event) => !isMereBookmark(event));
  } catch {
    return undefined;
  }
}

/** How often a server says how far it is, is its own affair; that the initial events end, is not. */
function isMereBookmark(event: Json): boolean {
  if (!isTree(event) || event['type'] !== 'BOOKMARK' || !isTree(event['object'])) return false;
  const { metadata } = event['object'];
  return isTree(metadata) && metadata['annotations'] === undefined;
}

function learn(step: Play, body: Json, ledger: Ledger): void {
  if (!isTree(body) || step.op === 'raw' || step.op === 'history') return;
  if (step.op === 'mark') {
    const version = isTree(body['metadata']) ? body['metadata']['resourceVersion'] : undefined;
    if (typeof version === 'string') ledger.marks.set(step.subject.plural, version);
    return;
  }
  if (step.op !== 'read' && JSON.stringify(step).includes('"dryRun"')) return;
  const objects = Array.isArray(body['items']) ? body['items'] : [body];
  for (const object of objects) {
    if (!isTree(object) || !isTree(object['metadata'])) continue;
    // Table and PartialObjectMetadata are not objects to edit.
    if (object['kind'] !== step.subject.kind) continue;
    const name = object['metadata']['name'];
    if (typeof name === 'string') ledger.remember(`${step.subject.plural}/${name}`, object);
  }
}

/** Every place where two JSON values differ. */
export function diff(
  path: string,
  one: Json | undefined,
  other: Json | undefined,
  places: Place[],
): void {
  if (isTree(one) && isTree(other)) {
    for (const key of new Set([...Object.keys(one), ...Object.keys(other)]))
      diff(`${path}.${key}`, one[key], other[key], places);
    return;
  }
  if (Array.isArray(one) && Array.isArray(other) && one.length === other.length) {
    for (const [index, value] of one.entries())
      diff(`${path}[${index}]`, value as Json, other[index] as Json, places);
    return;
  }
  if (JSON.stringify(one) !== JSON.stringify(other)) places.push({ path, one, other });
}

function describe(step: Play): string {
  if (step.op === 'raw') return `${step.method} ${step.path}`;
  const name = 'name' in step && step.name !== undefined ? `/${step.name}` : '';
  const status = 'status' in step && step.status ? '/status' : '';
  const type = step.op === 'patch' ? `${step.type} ` : '';
  return `${type}${step.op} ${step.subject.plural}${name}${status}`;
}
