// What an API server must do, as steps that any one can play: the in-memory server and a real kube-apiserver
// must give the same answers. Answers are recorded without what differs from server to server, such as
// versions and addresses; the same unknown value always has the same name in a record.

import type { KubeClient, KubeRequest } from '../../../src/core/kube/kube-client.ts';
import { JsonLines } from '../../../src/core/kube/reflector/json-lines.ts';
import { type Fields, fieldsOf, textOf } from './stored-object.ts';

/** A server that is judged. */
export interface Subject {
  readonly client: KubeClient;
  /** Compacts the history of its database. */
  compact(): Promise<void>;
}

export interface Case {
  readonly name: string;
  play(probe: Probe): Promise<void>;
}

interface Answer extends Fields {
  readonly metadata: Fields & { readonly resourceVersion: string; readonly uid: string };
}

/** Plays one case in a namespace of its own. */
export class Probe {
  readonly record: unknown[] = [];
  readonly namespace: string;
  readonly #subject: Subject;
  readonly #names = new Map<string, string>();

  constructor(subject: Subject, namespace: string) {
    this.#subject = subject;
    this.namespace = namespace;
  }

  compact(): Promise<void> {
    return this.#subject.compact();
  }

  /** The path of a collection in the namespace of the case, and of an object in it. */
  path(plural: string, name?: string): string {
    const group = groups.get(plural) ?? 'api/v1';
    return `/${group}/namespaces/${this.namespace}/${plural}${name === undefined ? '' : `/${name}`}`;
  }

  post(path: string, body: unknown): Promise<Answer> {
    return this.send({ method: 'POST', path, body });
  }

  put(path: string, body: unknown): Promise<Answer> {
    return this.send({ method: 'PUT', path, body });
  }

  get(path: string, query: KubeRequest['query'] = {}): Promise<Answer> {
    return this.send({ method: 'GET', path, query });
  }

  patch(path: string, body: unknown): Promise<Answer> {
    return this.send({
      method: 'PATCH',
      path,
      body,
      contentType: 'application/merge-patch+json',
    });
  }

  delete(path: string, preconditions?: object): Promise<Answer> {
    const options = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions };
    return this.send({ method: 'DELETE', path, ...(preconditions && { body: options }) });
  }

  /** Resolves to the body, whatever the status is. */
  async send(request: KubeRequest): Promise<Answer> {
    const { status, body } = await this.#subject.client.request(request);
    let value: unknown;
    try {
      value = JSON.parse(body.toString());
    } catch {
      value = {};
    }
    this.record.push({
      asked: `${request.method} ${request.path}`,
      status,
      body: this.#known(value),
    });
    return value as Answer;
  }

  /** Reads so many events, or all until the server ends the watch. */
  async watch(
    path: string,
    query: Readonly<Record<string, string>>,
    count: number,
    meanwhile: () => Promise<void> = () => Promise.resolve(),
  ): Promise<void> {
    const asked = `WATCH ${path}`;
    const stream = await this.#subject.client.stream({
      method: 'GET',
      path,
      query: { watch: 'true', ...query },
    });
    if (stream.status !== 200) {
      stream.close();
      this.record.push({ asked, status: stream.status });
      return;
    }
    const done = meanwhile();
    const events: unknown[] = [];
    const lines = new JsonLines(1024 * 1024);
    try {
      if (count > 0) {
        for await (const chunk of stream.body) {
          for (const line of lines.push(chunk)) events.push(JSON.parse(line.toString()));
          if (events.length >= count) break;
        }
      }
    } finally {
      stream.close();
    }
    await done;
    this.record.push({ asked, events: events.slice(0, count).map((event) => this.#event(event)) });
  }

  #event(event: unknown): unknown {
    const { type, object } = fieldsOf(event);
    if (type !== 'BOOKMARK') return { type, object: this.#known(object) };
    const { kind, apiVersion, metadata } = fieldsOf(object);
    return { type, kind, apiVersion, annotations: fieldsOf(metadata)['annotations'] ?? {} };
  }

  /** The answer with names in place of what servers choose. */
  #known(value: unknown): unknown {
    const { kind, status, reason, details, items } = fieldsOf(value);
    if (kind === 'Status' && status === 'Failure') {
      const causes = (fieldsOf(details)['causes'] ?? []) as readonly Fields[];
      const terminating = causes.filter(({ reason: why }) => alwaysCompared.has(String(why)));
      return { reason, causes: terminating.map((cause) => cause['reason']) };
    }
    if (Array.isArray(items)) {
      const { continue: token, remainingItemCount } = fieldsOf(fieldsOf(value)['metadata']);
      const { apiVersion } = fieldsOf(value);
      const all = items.map((item) => this.#renamed(item));
      return { apiVersion, kind, hasMore: textOf(token) !== '', remainingItemCount, items: all };
    }
    return this.#renamed(value);
  }

  #renamed(value: unknown, key = ''): unknown {
    if (Array.isArray(value)) return value.map((item) => this.#renamed(item, key));
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(
        Object.entries(value)
          .toSorted(([a], [b]) => (a < b ? -1 : 1))
          .filter(([name, inner]) => name !== 'managedFields' && !isEmptyTime(name, inner))
          .map(([name, inner]) => [name, this.#renamed(inner, name)]),
      );
    }
    if (chosen.has(key) && value !== 'None' && value !== undefined) {
      const whole = `${key.replace(/IPs$/, 'IP')} ${JSON.stringify(value)}`;
      if (!this.#names.has(whole)) this.#names.set(whole, `${key} ${this.#names.size}`);
      return this.#names.get(whole);
    }
    return times.has(key) ? 'a time' : value;
  }
}

const groups: ReadonlyMap<string, string> = new Map([
  ['endpointslices', 'apis/discovery.k8s.io/v1'],
  ['leases', 'apis/coordination.k8s.io/v1'],
  ['nativeservices', 'apis/clusters.hansa.dev/v1alpha1'],
]);
/** Fields whose values a server chooses. */
const chosen: ReadonlySet<string> = new Set([
  'uid',
  'resourceVersion',
  'clusterIP',
  'clusterIPs',
  'nodePort',
]);
const times: ReadonlySet<string> = new Set(['creationTimestamp', 'deletionTimestamp']);
/** Causes that callers act on. */
const alwaysCompared: ReadonlySet<string> = new Set([
  'NamespaceTerminating',
  'ResourceVersionTooLarge',
]);

const isEmptyTime = (name: string, value: unknown): boolean => times.has(name) && value === null;

/** The records of all cases, by name. */
export async function playConformance(
  subject: Subject,
  cases: readonly Case[],
): Promise<ReadonlyMap<string, readonly unknown[]>> {
  const records = new Map<string, readonly unknown[]>();
  for (const [index, each] of cases.entries()) {
    const namespace = `case-${index}`;
    await subject.client.create('/api/v1/namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: namespace },
    });
    const probe = new Probe(subject, namespace);
    await each.play(probe);
    records.set(each.name, probe.record);
  }
  return records;
}
