// Test fixture: a site client that holds a few Clusters, and runs `hansa cluster` with it.

import { Readable } from 'node:stream';
import type { Kind } from '../../api/kind.ts';
import type { JsonObject } from '../../api/object.ts';
import { createCli } from '../../cli/cli.ts';
import { processIo } from '../../cli/process-io.ts';
import { systemClock } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { CommandKit, Io } from '../../core/plane/command-kit.ts';
import type { Finding } from '../../core/plane/doctor.ts';
import type { ApplyOptions, RequestOptions, SiteClient } from '../../core/plane/site-client.ts';
import { allPlanes } from '../../test-planes.ts';
import { clusterCommand } from './cluster.ts';

export interface TestSiteOptions {
  readonly clusters?: readonly JsonObject[];
  readonly info?: JsonObject;
  /** Of the api listener. */
  readonly listener?: string;
  /** Of an examination, by cluster. */
  readonly findings?: Readonly<Record<string, readonly Finding[]>>;
  /** Answers all other requests; throws what the site would answer. */
  readonly answer?: (request: RequestOptions) => unknown;
  readonly stdin?: string;
  readonly io?: Partial<Io>;
}

export const testInfo = {
  trustDomain: 'lubeck.example',
  baseDomain: 'kube-fed.svc.cluster.local',
  audience: 'hansa://lubeck.example',
  ca: '-----BEGIN CERTIFICATE-----\nc2l0ZQ==\n-----END CERTIFICATE-----\n',
} as const;

/** Once: each one listens for signals. */
const ownIo = processIo();

export interface Applied {
  readonly name: string;
  readonly object: JsonObject;
  readonly options: ApplyOptions;
}

/** Runs `hansa cluster ARGS`. The user answers yes. */
export async function runCluster(args: readonly string[], options: TestSiteOptions = {}) {
  const printed: string[] = [];
  const notes: string[] = [];
  const questions: string[] = [];
  const requests: RequestOptions[] = [];
  const applied: Applied[] = [];
  const deleted: string[] = [];
  const clusters = [...(options.clusters ?? [])];
  const nameOf = ({ metadata }: JsonObject) => (metadata as { readonly name: string }).name;
  const client = {
    list: async () => ({ items: clusters }),
    table: async () => ({ kind: 'Table', columnDefinitions: [{ name: 'Name' }], rows: [] }),
    get: async (kind: Kind, name: string) => {
      if (kind.kind === 'Site') {
        return {
          status: { listeners: [{ name: 'api', address: options.listener ?? '10.0.0.5:7443' }] },
        };
      }
      const found = clusters.find((each) => nameOf(each) === name);
      if (found === undefined) throw new HansaError('HANSA_NOT_FOUND', `no ${name}`);
      return found;
    },
    apply: async (_kind: Kind, name: string, object: JsonObject, how: ApplyOptions = {}) => {
      applied.push({ name, object, options: how });
      const created = !clusters.some((each) => nameOf(each) === name);
      if (how.dryRun !== true && created) clusters.push(object);
      return { object, created };
    },
    delete: async (_kind: Kind, name: string) => void deleted.push(name),
    request: async (request: RequestOptions) => {
      requests.push(request);
      const { path } = request;
      if (path === '/hansa/v1/auth') {
        return { status: 200, body: { ...testInfo, ...options.info } };
      }
      const examined = /^\/hansa\/v1\/clusters\/([^/]+)\/examine$/.exec(path)?.[1];
      if (examined !== undefined) {
        return { status: 200, body: { findings: options.findings?.[examined] ?? [] } };
      }
      return { status: 200, body: options.answer?.(request) };
    },
  } as unknown as SiteClient;
  const io: Io = {
    ...ownIo,
    clock: systemClock,
    stdin: Readable.from([Buffer.from(options.stdin ?? '')]),
    ...options.io,
  };
  const kit: CommandKit = {
    ...createCli(io, { planes: allPlanes, version: '1' }),
    print: (text) => void printed.push(text),
    note: (text) => void notes.push(text),
    withClient: (_command, work) => work(client),
    confirm: async (_command, question) => void questions.push(question),
    printTable: (table) => void printed.push(JSON.stringify(table)),
  };
  let error: HansaError | undefined;
  try {
    await clusterCommand(kit).exitOverride().parseAsync(args, { from: 'user' });
  } catch (caught) {
    if (!(caught instanceof HansaError)) throw caught;
    error = caught;
  }
  return {
    printed: printed.join('\n'),
    notes: notes.join('\n'),
    questions,
    requests,
    applied,
    deleted,
    error,
  };
}
