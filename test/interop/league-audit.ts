// The writes of sites in a cluster, as its API server has recorded them in its audit log.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { siteUser } from '../../src/core/kube/manifests/manifest.ts';
import { siteNames, systemNamespace, trustDomainOf } from './league-members.ts';

export interface RecordedWrite {
  readonly user: string;
  readonly verb: 'create' | 'update' | 'delete';
  /** NAMESPACE/NAME of what it changes, with the resource. */
  readonly object: string;
  readonly code: number;
  /** Undefined for deletions. */
  readonly epoch: number | undefined;
  /** Of the object after the write. 0 where it was refused. */
  readonly version: number;
  readonly message: string;
}

const policy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    // By ServiceAccounts and by JWT-SVIDs.
    { userGroups: [`system:serviceaccounts:${systemNamespace}`] },
    { users: siteNames.map((name) => siteUser(trustDomainOf(name))) },
  ]
    .map((sites): object => ({
      ...sites,
      level: 'RequestResponse',
      verbs: ['create', 'update', 'delete'],
      resources: [
        { group: '', resources: ['services'] },
        { group: 'discovery.k8s.io', resources: ['endpointslices'] },
      ],
    }))
    .concat({ level: 'None' }),
};

interface AuditEvent {
  readonly verb: RecordedWrite['verb'];
  readonly user: { readonly username: string };
  readonly objectRef: {
    readonly resource: string;
    readonly namespace: string;
    readonly name?: string;
  };
  readonly requestObject?: WrittenObject;
  readonly responseObject?: WrittenObject;
  readonly responseStatus: { readonly code: number; readonly message?: string };
}

interface WrittenObject {
  readonly metadata?: {
    readonly name?: string;
    readonly resourceVersion?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

export class WriteLog {
  readonly #path: string;
  #forgotten = 0;
  /** For kube-apiserver. */
  readonly flags: readonly string[];

  constructor(folder: string) {
    mkdirSync(folder, { recursive: true });
    const file = join(folder, 'policy.json');
    writeFileSync(file, JSON.stringify(policy));
    this.#path = join(folder, 'audit.log');
    // Blocking is the default: a write is in the log before the client has its answer.
    this.flags = [`--audit-policy-file=${file}`, `--audit-log-path=${this.#path}`];
  }

  /** In the order in which the API server answered. */
  writes(): readonly RecordedWrite[] {
    return readFileSync(this.#path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => recorded(JSON.parse(line) as AuditEvent));
  }

  /** Later calls of `stale` leave out what was written until now: a restore of etcd undoes it. */
  forget(): void {
    this.#forgotten = this.writes().length;
  }

  /** Successful writes to an object whose epoch is below that of an earlier one. None is right. */
  stale(): readonly RecordedWrite[] {
    const highest = new Map<string, number>();
    return this.writes()
      .slice(this.#forgotten)
      .filter(({ code, epoch }) => code < 300 && epoch !== undefined)
      .toSorted((a, b) => a.version - b.version)
      .filter(({ verb, object, epoch = 0 }) => {
        // A stale create is allowed: the next leader repairs it.
        const before = verb === 'create' ? 0 : (highest.get(object) ?? 0);
        highest.set(object, epoch);
        return epoch < before;
      });
  }
}

function recorded(event: AuditEvent): RecordedWrite {
  const { verb, user, objectRef, requestObject, responseObject, responseStatus } = event;
  const { code, message = '' } = responseStatus;
  const name = objectRef.name ?? requestObject?.metadata?.name ?? '';
  const epoch = requestObject?.metadata?.annotations?.['clusters.hansa.dev/epoch'];
  return {
    user: user.username,
    verb,
    object: `${objectRef.resource}/${objectRef.namespace}/${name}`,
    code,
    epoch: verb === 'delete' || epoch === undefined ? undefined : Number(epoch),
    version: code < 300 ? Number(responseObject?.metadata?.resourceVersion ?? 0) : 0,
    message,
  };
}
